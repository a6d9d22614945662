/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake operator libraries of revision_fakes.py are made of: RECORD(argument) looks at an argument as its type
   asks and writes what it finds, as one JSON line a call, to the file that the environment names. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
/* CANN has no public way to read an int array: the simulator's own. */
#include "nnopbase/holders.h"

#define FAKE_EXECUTOR ((aclOpExecutor *)0x5eed)
#define FAKE_WORKSPACE 4096

static FILE *record;
static const char *separator;

static void begin(const char *function)
{
    record = fopen(getenv("REVISION_FAKES_RECORD"), "a");
    if (record == NULL) {
        abort();
    }
    fprintf(record, "{\"function\": \"%s\", \"arguments\": {", function);
    separator = "";
}

static void end(void)
{
    fprintf(record, "}}\n");
    fclose(record);
}

static void name_it(const char *name)
{
    fprintf(record, "%s\"%s\": ", separator, name);
    separator = ", ";
}

static void integers(const int64_t *values, uint64_t count)
{
    fprintf(record, "[");
    for (uint64_t i = 0; i < count; i++) {
        fprintf(record, "%s%" PRId64, i == 0 ? "" : ", ", values[i]);
    }
    fprintf(record, "]");
}

static inline void record_tensor(const char *name, const aclTensor *tensor)
{
    int64_t *shape = NULL;
    uint64_t rank = 0;
    aclDataType dtype = ACL_DT_UNDEFINED;
    void *address = NULL;

    name_it(name);
    if (tensor == NULL) {
        fprintf(record, "null");
    } else if (aclGetViewShape(tensor, &shape, &rank) != 0 || aclGetDataType(tensor, &dtype) != 0 ||
               aclGetRawTensorAddr(tensor, &address) != 0) {
        fprintf(record, "\"no tensor\"");
    } else {
        fprintf(record, "{\"shape\": ");
        integers(shape, rank);
        fprintf(record, ", \"dtype\": %d, \"address\": %" PRIuPTR "}", (int)dtype, (uintptr_t)address);
        free(shape);
    }
}

static inline void record_int_array(const char *name, const aclIntArray *array)
{
    const sim_holder *holder = array == NULL ? NULL : sim_handle_get(SIM_INT_ARRAY, array);
    uint64_t size = 0;

    name_it(name);
    if (array == NULL) {
        fprintf(record, "null");
    } else if (holder == NULL || aclGetIntArraySize(array, &size) != 0) {
        fprintf(record, "\"no int array\"");
    } else {
        integers((const int64_t *)(const void *)holder->values, size);
    }
}

static inline void record_text(const char *name, const char *text)
{
    name_it(name);
    if (text == NULL) {
        fprintf(record, "null");
    } else {
        fprintf(record, "\"%s\"", text);
    }
}

static inline void record_number(const char *name, double number)
{
    name_it(name);
    fprintf(record, "%.17g", number);
}

static inline void record_pointer(const char *name, const void *pointer)
{
    name_it(name);
    fprintf(record, "%" PRIuPTR, (uintptr_t)pointer);
}

#define RECORD(argument)                          \
    _Generic((argument),                          \
        aclTensor *: record_tensor,               \
        const aclTensor *: record_tensor,         \
        aclIntArray *: record_int_array,          \
        const aclIntArray *: record_int_array,    \
        char *: record_text,                      \
        const char *: record_text,                \
        bool: record_number,                      \
        int64_t: record_number,                   \
        uint64_t: record_number,                  \
        float: record_number,                     \
        double: record_number,                    \
        default: record_pointer)(#argument, argument)
