/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that the handler does is safe in one: it formats by hand, tries its lock and never waits for it. What
   comes next is whatever would have come without it: the handler that was there, else the default action. */
#include "core/host_touch.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/arena.h"
#include "core/checks.h"
#include "core/wording.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int installed;
static struct sigaction previous; /* while installed */

typedef struct {
    char bytes[512];
    size_t length;
} line;

static void put(line *l, const char *text)
{
    while (*text != '\0' && l->length < sizeof l->bytes - 1) {
        l->bytes[l->length++] = *text++;
    }
    l->bytes[l->length] = '\0';
}

static void put_number(line *l, uintptr_t number, unsigned radix)
{
    char digits[24];
    size_t i = sizeof digits - 1;
    digits[i] = '\0';
    do {
        digits[--i] = "0123456789abcdef"[number % radix];
        number /= radix;
    } while (number != 0);
    put(l, radix == 16 ? "0x" : "");
    put(l, &digits[i]);
}

static void put_distance(line *l, const sim_block *b, uintptr_t address)
{
    put(l, ", ");
    if (address - b->start < b->asked) {
        put(l, "byte ");
        put_number(l, address - b->start, 10);
        put(l, " of");
    } else if (address < b->start) {
        put_number(l, b->start - address, 10);
        put(l, " bytes in front of");
    } else {
        put_number(l, address - b->start - b->asked, 10);
        put(l, " bytes behind");
    }
}

static void put_block(line *l, const sim_block *b, uintptr_t address)
{
    put_distance(l, b, address);
    put(l, " the ");
    put_number(l, b->asked, 10);
    put(l, " bytes at ");
    put_number(l, b->start, 16);
    put(l, " (number ");
    put_number(l, b->origin.number, 10);
    put(l, ", made by ");
    put(l, b->origin.function);
    if (b->origin.label[0] != '\0') {
        put(l, " for '");
        put(l, b->origin.label);
        put(l, "'");
    }
    put(l, ")");
    if (b->freed_by != NULL) {
        put(l, ", which ");
        put(l, b->freed_by);
        put(l, " freed");
    }
}

static void report(sim_arena *a, const void *address)
{
    line l = {.length = 0};
    put(&l, "code of the host touches device memory at ");
    put_number(&l, (uintptr_t)address, 16);
    if (pthread_rwlock_tryrdlock(&a->lock) == 0) {
        const sim_block *b = sim_arena_find(a, address);
        if (b == NULL) {
            b = sim_arena_nearest(a, address);
        }
        if (b != NULL) {
            put_block(&l, b, (uintptr_t)address);
        }
        pthread_rwlock_unlock(&a->lock);
    }
    sim_wording_polish(l.bytes);
    sim_report_from_signal("host_touch", l.bytes);
}

/* The mask and the flags are those of this handler; faults nest. */
static void pass_on(int signal, siginfo_t *info, void *context)
{
    if ((previous.sa_flags & SA_SIGINFO) != 0) {
        previous.sa_sigaction(signal, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(signal);
    } else {
        /* The instruction runs again, and this time the fault ends the process. */
        struct sigaction end = {.sa_handler = SIG_DFL};
        sigaction(signal, &end, NULL);
    }
}

static void handle(int signal, siginfo_t *info, void *context)
{
    sim_arena *a = sim_arena_of(info->si_addr);
    if (a != NULL && info->si_code > 0 && sim_checking(SIM_CHECK_MEM)) {
        report(a, info->si_addr);
    }
    pass_on(signal, info, context);
}

/* With the lock. */
static int is_own(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == handle;
}

void sim_host_touch_look(void)
{
    pthread_mutex_lock(&lock);
    struct sigaction now;
    sigaction(SIGSEGV, NULL, &now);
    if (atomic_load(&installed) && !is_own(&now)) {
        fputs("aclsim: mem: the program has installed a handler of SIGSEGV over the simulator's, which was there first; "
              "host code that touches device memory ends in that handler, and the allocation is named only if it passes "
              "the signal on: install it before the libraries are loaded\n",
            stderr);
    }
    pthread_mutex_unlock(&lock);
}

/* A handler that was installed over this one stays, and this one below it: then it only passes on. */
void sim_host_touch_watch(int is_on)
{
    pthread_mutex_lock(&lock);
    struct sigaction now;
    sigaction(SIGSEGV, NULL, &now);
    if (is_on && !atomic_load(&installed)) {
        struct sigaction own = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
        previous = now;
        sigaction(SIGSEGV, &own, NULL);
        atomic_store(&installed, 1);
    } else if (!is_on && is_own(&now)) {
        sigaction(SIGSEGV, &previous, NULL);
        atomic_store(&installed, 0);
    }
    pthread_mutex_unlock(&lock);
}
