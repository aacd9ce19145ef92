/* loadgen: load generator and light mock upstream in one epoll loop.
 *
 * One process on one core plays both neighbours of the gateway under test: the clients that send chat completions to it
 * and the provider that answers them. So two cores are enough to measure a proxy, and the time from "upstream wrote a
 * chunk" to "client has it" needs no clock but one.
 *
 * main.c      options, event loop, scenarios read from standard input, report
 * client.c    clients, in a closed loop or at a fixed rate; every answer is checked
 * upstream.c  the mock provider: JSON and SSE chat completions
 * http.c      incremental reader of HTTP/1.1 messages, used by both sides
 * measure.c   percentiles, CPU and memory of the gateway's process tree
 */
#ifndef LOADGEN_H
#define LOADGEN_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- http.c ---------------------------------------------------------------------------------------------------- */

enum read_state { IN_HEAD, IN_SIZED, IN_CHUNK_SIZE, IN_CHUNK_DATA, IN_CHUNK_END, IN_TRAILER, UNTIL_CLOSE };
enum progress { NEED_MORE, MESSAGE_DONE, MESSAGE_BAD };

struct reader {
    enum read_state state;
    bool is_response;
    bool close;       /* the peer said "connection: close" */
    int status;       /* of a response */
    size_t left;      /* bytes of a sized body or of the current chunk still to come */
    size_t line;      /* characters seen in the current trailer line */
    size_t head_len;
    char head[8192];  /* request or status line and fields, NUL-terminated once complete */
};

typedef void body_sink(void *owner, const char *data, size_t n);

void reader_reset(struct reader *r, bool is_response);
/* Consumes bytes from *p up to end, hands body bytes to the sink and stops right behind a complete message. */
enum progress reader_feed(struct reader *r, const char **p, const char *end, body_sink *sink, void *owner);

/* ---- links: what the event loop knows of a socket --------------------------------------------------------------- */

enum link_kind { LINK_LISTENER, LINK_UPSTREAM, LINK_CLIENT, LINK_STDIN };

struct link {
    enum link_kind kind;
    int fd; /* -1 once closed; the memory lives until the current batch of events is done */
    struct link *next_dead;
};

void loop_add(struct link *l, uint32_t events);
void loop_want(struct link *l, uint32_t events);
void loop_close(struct link *l); /* closes the socket and frees the link after the batch */
uint64_t now_ns(void);
void die(const char *what);
void write_digits(char *at, uint64_t value, int width); /* fixed width, zero-padded, no NUL */
uint64_t read_digits(const char *at, int width);

/* ---- scenario: one measured run ---------------------------------------------------------------------------------- */

struct scenario {
    bool sse;
    bool spin;          /* never sleep: the gateway then pays no inter-processor wake-up for its neighbours */
    int conns;
    int port;           /* where the clients connect: the gateway, or our own upstream for the direct figures */
    int chunks;         /* content chunks in one stream */
    int window;         /* lock-step: so many chunks of a stream under way at once; 0: paced or all at once */
    uint64_t interval;  /* paced: nanoseconds between two chunks of a stream; 0 with window 0: all at once */
    double rate;        /* requests per second, due at even times whatever becomes of earlier ones; 0: closed loop */
    double warm, dur;   /* seconds */
    int pid;            /* root of the gateway's process tree, 0 for none */
};
extern struct scenario scenario;

/* ---- measure.c ---------------------------------------------------------------------------------------------------- */

struct samples { /* nanoseconds; the first `cap` values are kept */
    uint32_t *values;
    size_t count, cap;
};

struct stats {
    bool measuring;
    long requests, chunks;
    long connect_failed, cut, bad_status, bad_body;
    char first_error[160];
    struct samples latency, chunk_latency;
};
extern struct stats stats;

void samples_add(struct samples *s, uint64_t ns);
void samples_sort(struct samples *s);
double samples_us(const struct samples *s, double quantile); /* microseconds, -1 without samples; sort first */
void stats_reset(void);
long stats_errors(void);
void note_error(long *counter, const char *what, const char *detail, size_t n);
void json_string(char *out, size_t room, const char *text); /* escapes text so that it can stand in JSON quotes */

void tree_find(int root);   /* remembers the pids of root and all its descendants */
double tree_cpu_s(void);    /* CPU time of the remembered processes, all threads, user + system */
long tree_rss_kb(void);
double own_cpu_s(void);
double machine_cpu_s(void); /* busy time of all cores, of everybody, time stolen by the host included */

/* ---- upstream.c --------------------------------------------------------------------------------------------------- */

enum { RID_DIGITS = 10, SLOT_DIGITS = 6, SEQ_DIGITS = 6, TIME_DIGITS = 20 };
/* A content chunk carries "@SLOT:RID:SEQ:TIME;" so that the client can check order and owner and grant the next one. */
enum { MARKER_LEN = 1 + SLOT_DIGITS + 1 + RID_DIGITS + 1 + SEQ_DIGITS + 1 + TIME_DIGITS + 1 };
/* A JSON answer carries "@RID~end" as the last characters of its content. */

extern long upstream_requests, upstream_conns, upstream_stalls;

void upstream_init(int port, size_t answer_bytes, size_t chunk_bytes);
void upstream_accept(struct link *listener);
void upstream_event(struct link *l, uint32_t events);
void upstream_grant(unsigned slot, uint64_t rid); /* lock-step: the client has the last chunk */
void upstream_tick(uint64_t now);                 /* paced: sends what is due */
uint64_t upstream_next_due(void);                 /* UINT64_MAX when nothing is paced */

/* ---- client.c ----------------------------------------------------------------------------------------------------- */

void client_init(const char *path, const char *model, const char *headers, size_t body_bytes);
void clients_start(void);
void clients_stop(void);
void client_event(struct link *l, uint32_t events);
void clients_tick(uint64_t now);     /* at a fixed rate: sends what is due, as far as connections are free */
uint64_t clients_next_due(void);     /* UINT64_MAX when nothing is, or no connection is free */
int clients_streaming(void);         /* streams that have had content and are still open */
double clients_oldest_wait_s(void);  /* age of the oldest request without a complete answer */

#endif
