/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/cache_key.h"

#include <stdlib.h>
#include <string.h>

/* Appends to the key, or only counts while there is none yet. */
typedef struct {
    cache_key *key;
    size_t bytes;
} key_writer;

static void put(key_writer *writer, const void *data, size_t bytes)
{
    if (writer->key != NULL && bytes != 0) {
        memcpy(writer->key->data + writer->bytes, data, bytes);
    }
    writer->bytes += bytes;
}

static void put_dims(key_writer *writer, const int64_t *dims, uint64_t rank)
{
    put(writer, &rank, sizeof rank);
    put(writer, dims, sim_held_rank(rank) * sizeof *dims);
}

static void put_tensor(key_writer *writer, const sim_tensor *tensor)
{
    const int64_t marks[] = {tensor != NULL, tensor == NULL ? 0 : tensor->dtype, tensor == NULL ? 0 : tensor->format,
                             tensor == NULL ? 0 : tensor->offset};

    put(writer, marks, sizeof marks);
    if (tensor != NULL) {
        put_dims(writer, tensor->dims, tensor->rank);
        put_dims(writer, tensor->strides, tensor->rank);
        put_dims(writer, tensor->storage_dims, tensor->storage_rank);
    }
}

static void put_call(key_writer *writer, const op_kernel *kernel, const sim_tensor *const *tensors,
                     size_t tensor_count, const void *attributes, size_t attribute_bytes, int32_t device)
{
    put(writer, &kernel, sizeof kernel);
    put(writer, &device, sizeof device);
    for (size_t i = 0; i < tensor_count; i++) {
        put_tensor(writer, tensors[i]);
    }
    put(writer, attributes, attribute_bytes);
}

/* FNV-1a. */
static uint64_t hash(const unsigned char *data, size_t bytes)
{
    uint64_t value = 0xcbf29ce484222325U;

    for (size_t i = 0; i < bytes; i++) {
        value = (value ^ data[i]) * 0x100000001b3U;
    }
    return value;
}

cache_key *cache_key_create(const op_kernel *kernel, const sim_tensor *const *tensors, size_t tensor_count,
                            const void *attributes, size_t attribute_bytes, int32_t device)
{
    key_writer counter = {NULL, 0};
    put_call(&counter, kernel, tensors, tensor_count, attributes, attribute_bytes, device);

    cache_key *key = malloc(sizeof *key + counter.bytes);
    if (key == NULL) {
        return NULL;
    }
    key_writer writer = {key, 0};
    put_call(&writer, kernel, tensors, tensor_count, attributes, attribute_bytes, device);
    key->bytes = writer.bytes;
    key->hash = hash(key->data, key->bytes);
    return key;
}

bool cache_key_equal(const cache_key *one, const cache_key *other)
{
    return one->hash == other->hash && one->bytes == other->bytes && memcmp(one->data, other->data, one->bytes) == 0;
}
