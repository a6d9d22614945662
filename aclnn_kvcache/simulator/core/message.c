/* SPDX-License-Identifier: Apache-2.0 */
#include "core/message.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KEPT 1000
#define INDENT "        "

typedef struct message {
    struct message *older;
    char *stamp;    /* "[PID: n] time" */
    char *text;     /* "Title(CODE): text"; decides whether two messages are the same */
    char *solution; /* may be NULL */
    char *trace;    /* indented lines; may be NULL */
} message;

typedef struct {
    message *newest;
    size_t count;
    char *taken; /* what the last sim_message_take returned */
} container;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static void message_free(message *m)
{
    free(m->stamp);
    free(m->text);
    free(m->solution);
    free(m->trace);
    free(m);
}

static void clear(container *c)
{
    while (c->newest != NULL) {
        message *m = c->newest;
        c->newest = m->older;
        message_free(m);
    }
    c->count = 0;
}

static void container_free(void *value)
{
    container *c = value;
    clear(c);
    free(c->taken);
    free(c);
}

static void make_key(void)
{
    pthread_key_create(&key, container_free);
}

static container *own_container(void)
{
    pthread_once(&once, make_key);
    container *c = pthread_getspecific(key);
    if (c == NULL && (c = calloc(1, sizeof *c)) != NULL && pthread_setspecific(key, c) != 0) {
        free(c);
        c = NULL;
    }
    return c;
}

static char *format_text(const char *format, va_list values)
{
    char *text;
    return vasprintf(&text, format, values) < 0 ? NULL : text;
}

static char *join(const char *first, const char *second, const char *third)
{
    char *text;
    return asprintf(&text, "%s%s%s", first, second, third) < 0 ? NULL : text;
}

static char *stamp_now(void)
{
    struct timespec now;
    struct tm local;
    char *text;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    int length = asprintf(&text, "[PID: %ld] %04d-%02d-%02d-%02d:%02d:%02d.%03ld.%03ld", (long)getpid(),
        local.tm_year + 1900, local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec,
        now.tv_nsec / 1000000, now.tv_nsec / 1000 % 1000);
    return length < 0 ? NULL : text;
}

/* Drops an older message of the same text and, above the limit, the oldest. */
static void prune(container *c)
{
    message **link = &c->newest->older;
    for (size_t kept = 1; *link != NULL; ++kept) {
        message *m = *link;
        if (kept == KEPT || strcmp(m->text, c->newest->text) == 0) {
            *link = m->older;
            message_free(m);
            --c->count;
            return;
        }
        link = &m->older;
    }
}

static void add(const char *code, const char *title, const char *solution, const char *format, va_list values)
{
    container *c = own_container();
    message *m = calloc(1, sizeof *m);
    char *body = format_text(format, values);
    char head[96];
    snprintf(head, sizeof head, "%s(%s): ", title, code);
    if (m != NULL && body != NULL) {
        m->stamp = stamp_now();
        m->text = join(head, body, "");
        m->solution = solution == NULL ? NULL : strdup(solution);
    }
    free(body);
    if (c == NULL || m == NULL || m->stamp == NULL || m->text == NULL) {
        if (m != NULL) {
            message_free(m);
        }
        return;
    }
    m->older = c->newest;
    c->newest = m;
    ++c->count;
    prune(c);
}

void sim_message(const char *code, const char *title, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    add(code, title, NULL, format, values);
    va_end(values);
}

void sim_message_solution(const char *code, const char *title, const char *solution, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    add(code, title, solution, format, values);
    va_end(values);
}

void sim_message_trace(const char *format, ...)
{
    container *c = own_container();
    if (c == NULL || c->newest == NULL) {
        return;
    }
    va_list values;
    va_start(values, format);
    char *line = format_text(format, values);
    va_end(values);
    char *indented = line == NULL ? NULL : join(INDENT, line, "\n");
    char *trace = indented == NULL ? NULL : join(c->newest->trace == NULL ? "" : c->newest->trace, indented, "");
    free(line);
    free(indented);
    if (trace != NULL) {
        free(c->newest->trace);
        c->newest->trace = trace;
    }
}

void sim_message_drop(void)
{
    container *c = pthread_once(&once, make_key) == 0 ? pthread_getspecific(key) : NULL;
    if (c != NULL) {
        clear(c);
    }
}

/* Only the newest message has its headline at the margin; the others are part of its trace. */
static void print(FILE *out, const container *c)
{
    const message *newest = c->newest;
    fprintf(out, "%s %s\n", newest->stamp, newest->text);
    if (newest->solution != NULL) {
        fprintf(out, INDENT "Solution: %s\n", newest->solution);
    }
    if (newest->trace != NULL || newest->older != NULL) {
        fprintf(out, "TraceBack (most recent call last):\n%s", newest->trace == NULL ? "" : newest->trace);
    }
    for (const message *m = newest->older; m != NULL; m = m->older) {
        fprintf(out, INDENT "%s %s\n%s", m->stamp, m->text, m->trace == NULL ? "" : m->trace);
    }
}

const char *sim_message_take(void)
{
    container *c = own_container();
    if (c == NULL) {
        return NULL;
    }
    free(c->taken);
    c->taken = NULL;
    if (c->newest != NULL) {
        size_t size;
        FILE *out = open_memstream(&c->taken, &size);
        if (out != NULL) {
            print(out, c);
            fclose(out);
        }
        clear(c);
    }
    return c->taken;
}
