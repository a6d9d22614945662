/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of the table a token's lanes are turned by (qkv_rms_norm_rope_cache_with_k_scale.md, 5.4). */
#include <string.h>

#include "opapi/device_check.h"
#include "opapi/device_copy.h"
#include "opapi/qkv_work.h"

enum { LANES = HEAD_SIZE / 2 };

/* Lanes take turns between the axes, for as many turns as the axis has; all others are the first axis'. */
static uint64_t axis_of(const qkv_details *details, uint64_t lane)
{
    const uint64_t axis = lane % POSITION_AXES;

    return details->scene != ROPE && lane / POSITION_AXES < details->section[axis] ? axis : 0;
}

static bool read_table(const qkv_work *work, uint64_t token, uint64_t position, float row[HEAD_SIZE])
{
    const op_operand_place *table = &work->places[COS_SIN];

    device_at_token(token, "position", (int64_t)position);
    return device_read(table, table->start + position * HEAD_SIZE * sizeof *row, row, HEAD_SIZE * sizeof *row);
}

/* Only rows that some lane asks for are read. */
bool qkv_read_angles(const qkv_work *work, uint64_t token, float cos_sin[HEAD_SIZE])
{
    const uint64_t *positions = &work->positions[token * POSITION_AXES];
    float rows[POSITION_AXES][HEAD_SIZE];
    bool is_read[POSITION_AXES] = {false};

    for (uint64_t lane = 0; lane < LANES; lane++) {
        const uint64_t axis = axis_of(work->details, lane);
        if (!is_read[axis] && !read_table(work, token, positions[axis], rows[axis])) {
            return false;
        }
        is_read[axis] = true;
        cos_sin[lane] = rows[axis][lane];
        cos_sin[lane + LANES] = rows[axis][lane + LANES];
    }
    return true;
}
