/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz --statuses FILE [--seconds N] [--seed N] [--lives N] [--threads N]

   Lives one after the other: aclInit, random steps of every thread, everything given back, aclFinalize, nothing left.
   Life i has seed + i, so that one that fails is made again by --seed THAT --lives 1. The end is 0 with a line of counts,
   or 1 with the seed, the thread and its step. A sanitizer's report is followed by the same line; it has to go to a file
   (log_path=), since standard error is silenced. How it is built is written in .ci/run. */
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "aclsim/aclsim.h"
#include "fuzz.h"

enum { MOST_THREADS = 4, MOST_STATUSES = 1024, MOST_STEPS = 400, HANG_SECONDS = 60 };

static world worlds[MOST_THREADS];
static int threads = 1;
static int statuses[MOST_STATUSES];
static size_t status_count;
static atomic_ullong life_seed;
static int out; /* standard error, which the simulator's own reports must not fill */

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    char text[1024];
    va_list values;
    va_start(values, format);
    const int length = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    (void)!write(out, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

static void say_where(void)
{
    for (int i = 0; i < threads; i++) {
        const char *doing = atomic_load(&worlds[i].doing);
        say("fuzz: seed %llu, %d threads; thread %d, step %llu: %s\n", (unsigned long long)atomic_load(&life_seed), threads,
            i, (unsigned long long)atomic_load(&worlds[i].steps), doing == NULL ? "" : doing);
    }
}

void fuzz_failed(const world *w, const char *format, ...)
{
    char text[512];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    const char *message = aclGetRecentErrMsg();
    say("fuzz: FAILED: %s\n%s\n", text, message == NULL ? "" : message);
    say("fuzz: thread %d failed\n", (int)(w - worlds));
    say_where();
    _exit(1);
}

int fuzz_status(world *w, const char *call, int status)
{
    atomic_fetch_add(&w->calls, 1);
    for (size_t i = 0; i < status_count; i++) {
        if (statuses[i] == status) {
            return status;
        }
    }
    fuzz_failed(w, "%s answered %d, which is no status", call, status);
}

void fuzz_good(world *w, const char *call, int status)
{
    atomic_fetch_add(&w->calls, 1);
    REQUIRE(w, status == 0, "%s answered %d", call, status);
}

static void read_statuses(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[256];
    statuses[status_count++] = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL && status_count < MOST_STATUSES) {
        if (sscanf(line, "%d ", &statuses[status_count]) == 1) {
            status_count++;
        }
    }
    if (file == NULL || status_count < 100) {
        say("fuzz: no statuses in %s\n", path);
        exit(2);
    }
    fclose(file);
}

static void *watch(void *nothing)
{
    unsigned long long before[MOST_THREADS] = {0};
    time_t since[MOST_THREADS];
    for (int i = 0; i < MOST_THREADS; i++) {
        since[i] = time(NULL);
    }
    for (;;) {
        sleep(1);
        for (int i = 0; i < threads; i++) {
            const unsigned long long calls = atomic_load(&worlds[i].calls);
            if (calls != before[i]) {
                before[i] = calls;
                since[i] = time(NULL);
            } else if (time(NULL) - since[i] > HANG_SECONDS) {
                say("fuzz: FAILED: thread %d hangs\n", i);
                say_where();
                abort();
            }
        }
    }
    return nothing;
}

static void *live(void *arg)
{
    static void (*const steps[])(world *) = {memory_step,       memory_step,       memory_step,        stream_step,
                                             good_scatter_step, good_qkv_step,     wild_runtime_step,  wild_queries_step,
                                             wild_support_step, wild_support_step, wild_operator_step, wild_operator_step};
    world *w = arg;
    GOOD(w, aclrtSetDevice(w->good_device));
    streams_open(w);
    for (uint64_t end = 1 + below(w, MOST_STEPS); end > 0; end--) {
        atomic_fetch_add(&w->steps, 1);
        steps[below(w, sizeof steps / sizeof steps[0])](w);
    }
    memory_close(w);
    streams_close(w);
    GOOD(w, aclrtResetDevice(w->good_device));
    return NULL;
}

static void one_life(uint64_t seed)
{
    pthread_t ids[MOST_THREADS];
    atomic_store(&life_seed, seed);
    GOOD(&worlds[0], aclInit(NULL));
    for (int i = 0; i < threads; i++) {
        worlds[i].random = seed * MOST_THREADS + (uint64_t)i;
        worlds[i].good_device = 2 * i;
        worlds[i].wild_device = 2 * i + 1;
        worlds[i].stale_count = 0;
        atomic_store(&worlds[i].steps, 0);
        pthread_create(&ids[i], NULL, live, &worlds[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
    }
    GOOD(&worlds[0], aclFinalize());
    for (aclsimCounter kind = 0; kind <= ACLSIM_LIVE_EXECUTORS; kind++) {
        REQUIRE(&worlds[0], aclsim_counter(kind) == 0, "%lld objects of kind %d are left", (long long)aclsim_counter(kind),
                (int)kind);
    }
}

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

int main(int argc, char **argv)
{
    uint64_t seed = (uint64_t)time(NULL) * 1000 + (uint64_t)getpid();
    unsigned long long seconds = 10, lives = UINT64_MAX, calls = 0, done = 0;
    out = dup(STDERR_FILENO);
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--statuses") == 0) {
            read_statuses(value);
        } else if (strcmp(argv[i], "--seconds") == 0) {
            seconds = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--lives") == 0) {
            lives = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--threads") == 0) {
            threads = atoi(value);
        }
    }
    if (argc % 2 == 0 || status_count == 0 || threads < 1 || threads > MOST_THREADS || aclsim_set_profile("devices=8") != 0) {
        say("fuzz --statuses FILE [--seconds N] [--seed N] [--lives N] [--threads 1 to %d]\n", MOST_THREADS);
        return 2;
    }
    if (__sanitizer_set_death_callback != NULL) {
        __sanitizer_set_death_callback(say_where);
    }
    say("fuzz: seed %llu, %d threads\n", (unsigned long long)seed, threads);
    if (freopen("/dev/null", "w", stderr) == NULL) {
        return 2;
    }
    pthread_t watcher;
    pthread_create(&watcher, NULL, watch, NULL);
    pthread_detach(watcher);
    const time_t start = time(NULL);
    for (; done < lives && (unsigned long long)(time(NULL) - start) < seconds; done++) {
        one_life(seed + done);
    }
    for (int i = 0; i < threads; i++) {
        calls += atomic_load(&worlds[i].calls);
    }
    say("fuzz: %llu calls in %llu lives and %lld s from seed %llu, good\n", calls, done, (long long)(time(NULL) - start),
        (unsigned long long)seed);
    return 0;
}
