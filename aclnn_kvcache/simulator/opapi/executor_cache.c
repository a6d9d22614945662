/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/executor_cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "opapi/cache_key.h"

enum { BUCKETS = 512 };

/* acl_abi 3.5 */
static const unsigned long default_limit = 10000;
static const unsigned long greatest_limit = 10000000;

typedef struct entry entry;
struct entry {
    cache_key *key;
    op_plan *plan;
    entry *in_bucket;
    entry *newer;
};

/* One for each thread. Tickets hold it too, so a phase 2 may come after the thread's end. */
typedef struct {
    atomic_uint references;
    pthread_mutex_t lock;
    size_t count;
    entry *oldest;
    entry *newest;
    entry *buckets[BUCKETS];
} op_cache;

struct op_cache_ticket {
    op_cache *cache;
    cache_key *key;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t of_thread;
static size_t limit; /* 0: calls are not remembered */

static void forget_oldest(op_cache *cache)
{
    entry *gone = cache->oldest;
    entry **link = &cache->buckets[gone->key->hash % BUCKETS];

    while (*link != gone) {
        link = &(*link)->in_bucket;
    }
    *link = gone->in_bucket;
    cache->oldest = gone->newer;
    if (cache->oldest == NULL) {
        cache->newest = NULL;
    }
    cache->count--;
    op_plan_drop(gone->plan);
    free(gone->key);
    free(gone);
}

static void cache_drop(void *object)
{
    op_cache *cache = object;

    if (atomic_fetch_sub_explicit(&cache->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    while (cache->oldest != NULL) {
        forget_oldest(cache);
    }
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

/* A number that cannot be used leaves the default. */
static size_t limit_from_environment(void)
{
    const char *text = getenv("ACLNN_CACHE_LIMIT");
    char *end;

    if (getenv("DISABLE_L2_CACHE") != NULL) {
        return 0;
    }
    if (text == NULL || text[0] < '0' || text[0] > '9') {
        return default_limit;
    }
    errno = 0;
    const unsigned long value = strtoul(text, &end, 10);
    return errno != 0 || *end != '\0' || value > greatest_limit ? default_limit : value;
}

static void start(void)
{
    limit = pthread_key_create(&of_thread, cache_drop) == 0 ? limit_from_environment() : 0;
}

static op_cache *cache_of_thread(void)
{
    pthread_once(&once, start);
    if (limit == 0) {
        return NULL;
    }
    op_cache *cache = pthread_getspecific(of_thread);
    if (cache != NULL) {
        return cache;
    }
    cache = calloc(1, sizeof *cache);
    if (cache == NULL) {
        return NULL;
    }
    atomic_init(&cache->references, 1);
    pthread_mutex_init(&cache->lock, NULL);
    if (pthread_setspecific(of_thread, cache) != 0) {
        cache_drop(cache);
        return NULL;
    }
    return cache;
}

op_cache_ticket *op_cache_ticket_create(const op_kernel *kernel, const sim_tensor *const *tensors, size_t tensor_count,
                                        const void *attributes, size_t attribute_bytes, int32_t device)
{
    op_cache *cache = cache_of_thread();

    if (cache == NULL) {
        return NULL;
    }
    op_cache_ticket *ticket = malloc(sizeof *ticket);
    cache_key *key = cache_key_create(kernel, tensors, tensor_count, attributes, attribute_bytes, device);
    if (ticket == NULL || key == NULL) {
        free(ticket);
        free(key);
        return NULL;
    }
    atomic_fetch_add_explicit(&cache->references, 1, memory_order_relaxed);
    *ticket = (op_cache_ticket){cache, key};
    return ticket;
}

void op_cache_ticket_drop(op_cache_ticket *ticket)
{
    cache_drop(ticket->cache);
    free(ticket->key);
    free(ticket);
}

/* With the lock held. */
static entry *find(const op_cache *cache, const cache_key *key)
{
    entry *candidate = cache->buckets[key->hash % BUCKETS];

    while (candidate != NULL && !cache_key_equal(candidate->key, key)) {
        candidate = candidate->in_bucket;
    }
    return candidate;
}

op_plan *op_cache_find(const op_cache_ticket *ticket)
{
    pthread_mutex_lock(&ticket->cache->lock);
    const entry *found = find(ticket->cache, ticket->key);
    op_plan *plan = found == NULL ? NULL : op_plan_share(found->plan);
    pthread_mutex_unlock(&ticket->cache->lock);
    return plan;
}

static void append(op_cache *cache, entry *added)
{
    entry **bucket = &cache->buckets[added->key->hash % BUCKETS];

    added->in_bucket = *bucket;
    *bucket = added;
    if (cache->newest == NULL) {
        cache->oldest = added;
    } else {
        cache->newest->newer = added;
    }
    cache->newest = added;
    if (++cache->count > limit) {
        forget_oldest(cache);
    }
}

void op_cache_remember(op_cache_ticket *ticket, op_plan *plan)
{
    entry *added = calloc(1, sizeof *added);

    pthread_mutex_lock(&ticket->cache->lock);
    if (added != NULL && find(ticket->cache, ticket->key) == NULL) {
        added->key = ticket->key;
        added->plan = op_plan_share(plan);
        append(ticket->cache, added);
        ticket->key = NULL;
        added = NULL;
    }
    pthread_mutex_unlock(&ticket->cache->lock);
    free(added);
    op_cache_ticket_drop(ticket);
}
