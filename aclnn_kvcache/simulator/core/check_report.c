/* SPDX-License-Identifier: Apache-2.0 */
/* Where reports go: the thread's recent messages, the file of ACLSIM_REPORT or else standard error, and a queue for the
   control interface. */
#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aclsim/aclsim.h"
#include "core/checks.h"
#include "core/counters.h"
#include "core/message.h"
#include "core/process.h"
#include "core/wording.h"

#define VARIABLE "ACLSIM_REPORT"
#define TEXT_BYTES 1024
#define QUEUED 1024 /* the oldest ones: what came first is the cause of what follows */

static atomic_ullong sequence;
static int file = -1; /* since the library was loaded */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for all that follows */
static char *queue[QUEUED]; /* a ring */
static size_t first_queued;
static size_t count_queued;

static _Thread_local sim_check_work current = {-1, -1, 0, UINT64_MAX};

sim_check_work sim_check_on_stream(sim_check_work work)
{
    const sim_check_work before = current;
    current = work;
    return before;
}

uint64_t sim_check_queued_at(void)
{
    return current.queued_at;
}

/* A line is one write, so that processes can share the file. */
static void write_line(const char *json)
{
    char *line;
    int length = asprintf(&line, "%s\n", json);
    if (length >= 0) {
        if (write(file, line, (size_t)length) < 0) {
            fprintf(stderr, "aclsim: " VARIABLE ": cannot write: %s\n", json);
        }
        free(line);
    }
}

/* Once, as the library is loaded: a file with this line alone says that nothing was found. */
void sim_check_open_report(void)
{
    const char *path = getenv(VARIABLE);
    if (path == NULL || *path == '\0') {
        return;
    }
    file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) {
        fprintf(stderr, "aclsim: " VARIABLE ": cannot open \"%s\"; reports come here\n", path);
        return;
    }
    char checks[80];
    char line[320];
    sim_check_list(checks, sizeof checks);
    snprintf(line, sizeof line, "{\"schema\":1,\"simulator\":\"%s\",\"pid\":%ld,\"checks\":%s}", aclsim_version(),
        (long)getpid(), checks);
    write_line(line);
}

static void put_text(FILE *out, const char *name, const char *text)
{
    fprintf(out, "\"%s\":\"", name);
    for (; *text != '\0'; ++text) {
        if (*text == '"' || *text == '\\') {
            fputc('\\', out);
        }
        fputc(iscntrl((unsigned char)*text) ? ' ' : *text, out);
    }
    fputs("\",", out);
}

static void put_number(FILE *out, const char *name, int32_t number)
{
    if (number < 0) {
        fprintf(out, "\"%s\":null,", name);
    } else {
        fprintf(out, "\"%s\":%d,", name, number);
    }
}

/* NULL when the host has no memory. */
static char *to_json(sim_check check, const char *kind, const char *function, const char *text, uint64_t number)
{
    char *json = NULL;
    size_t size;
    FILE *out = open_memstream(&json, &size);
    if (out == NULL) {
        return NULL;
    }
    fprintf(out, "{\"sequence\":%llu,", (unsigned long long)number);
    put_text(out, "check", sim_check_name(check));
    put_text(out, "kind", kind);
    put_text(out, "function", function);
    put_text(out, "text", text);
    put_number(out, "device", current.device);
    put_number(out, "stream", current.stream);
    fprintf(out, "\"thread\":%u}", current.thread == 0 ? (uint32_t)gettid() : current.thread);
    return fclose(out) == 0 ? json : NULL;
}

/* With the lock. Takes the text. */
static void enqueue(char *json)
{
    if (count_queued < QUEUED) {
        queue[(first_queued + count_queued++) % QUEUED] = json;
    } else {
        free(json);
    }
}

void sim_report(sim_check check, const char *kind, const char *function, const char *format, ...)
{
    if (!sim_checking(check) || sim_process_forked()) {
        return;
    }
    char text[TEXT_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    sim_wording_polish(text);
    char title[32];
    snprintf(title, sizeof title, "Simulator_Check_%s", sim_check_name(check));
    sim_message(kind, title, "%s: %s.", function, text);
    pthread_mutex_lock(&lock);
    char *json = to_json(check, kind, function, text, atomic_fetch_add(&sequence, 1) + 1);
    if (file >= 0 && json != NULL) {
        write_line(json);
    } else {
        fprintf(stderr, "aclsim: %s: %s in %s: %s\n", sim_check_name(check), kind, function, text);
    }
    if (json != NULL) {
        enqueue(json);
    }
    pthread_mutex_unlock(&lock);
    sim_count(ACLSIM_REPORTS, 1);
}

/* Nothing here may allocate, lock or use stdio; the text has nothing that JSON escapes. */
void sim_report_from_signal(const char *kind, const char *text)
{
    char line[TEXT_BYTES];
    char digits[24];
    size_t i = sizeof digits - 1;
    digits[i] = '\0';
    for (unsigned long long left = atomic_fetch_add(&sequence, 1) + 1; left != 0; left /= 10) {
        digits[--i] = (char)('0' + left % 10);
    }
    const char *const json[] = {"{\"sequence\":", &digits[i], ",\"check\":\"mem\",\"kind\":\"", kind,
        "\",\"function\":\"\",\"text\":\"", text, "\",\"device\":null,\"stream\":null,\"thread\":null}\n"};
    const char *const words[] = {"aclsim: mem: ", kind, ": ", text, "\n"};
    const char *const *parts = file >= 0 ? json : words;
    size_t count = file >= 0 ? sizeof json / sizeof *json : sizeof words / sizeof *words;
    size_t length = 0;
    for (size_t part = 0; part < count; ++part) {
        for (const char *c = parts[part]; *c != '\0' && length < sizeof line; ++c) {
            line[length++] = *c;
        }
    }
    ssize_t ignored = write(file >= 0 ? file : STDERR_FILENO, line, length);
    (void)ignored;
    sim_count(ACLSIM_REPORTS, 1);
}

SIM_EXPORT size_t aclsim_report_count(void)
{
    if (sim_process_forked()) {
        return 0;
    }
    pthread_mutex_lock(&lock);
    size_t count = count_queued;
    pthread_mutex_unlock(&lock);
    return count;
}

SIM_EXPORT size_t aclsim_next_report(char *buffer, size_t size)
{
    if (sim_process_forked()) {
        return 0;
    }
    size_t needed = 0;
    pthread_mutex_lock(&lock);
    if (count_queued > 0) {
        char *json = queue[first_queued];
        needed = strlen(json) + 1;
        if (buffer != NULL && needed <= size) {
            memcpy(buffer, json, needed);
            free(json);
            first_queued = (first_queued + 1) % QUEUED;
            --count_queued;
        }
    }
    pthread_mutex_unlock(&lock);
    return needed;
}
