/* The mock provider: answers chat completions at once, as JSON or as an SSE stream. */
#include "loadgen.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BODY_KEPT = 8192, OUT_ROOM = 32768, MAX_SLOTS = 65536 };

struct upstream {
    struct link link;
    struct reader request;
    size_t body_len, out_len;
    uint64_t rid;
    int sent;          /* content chunks of the current stream */
    int credit;        /* lock-step: chunks that may be sent now */
    bool streaming;
    bool queued;       /* waits in the pacing queue */
    uint64_t due;
    struct upstream *next_due;
    char body[BODY_KEPT];
    char out[OUT_ROOM]; /* what the socket did not take */
};

long upstream_requests, upstream_conns, upstream_stalls;

static struct link listener = {.kind = LINK_LISTENER, .fd = -1};
static struct upstream *slots[MAX_SLOTS]; /* by file descriptor */

/* Answers are built once; only digits are written into them per request. */
static char *answer, *chunk, *models;
static size_t answer_len, answer_rid_at, chunk_len, chunk_marker_at, models_len;
static char start[1024], finish[1024];
static size_t start_len, finish_len;

/* Every stream has the same interval, so the queue of due times is first in, first out. */
static struct upstream *due_first, **due_last = &due_first;

#define CHUNK_HEAD "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1764460800," \
                   "\"model\":\"bench-upstream\",\"choices\":[{\"index\":0,\"delta\":"

static char *filled(const char *before, const char *marker, const char *after, size_t total, size_t *len, size_t *at) {
    size_t fixed = strlen(before) + strlen(marker) + strlen(after), filler = total > fixed ? total - fixed : 0;
    char *text = malloc(fixed + filler + 1);
    if (!text) die("malloc");
    size_t n = (size_t)sprintf(text, "%s", before);
    for (size_t i = 0; i < filler; i++) text[n++] = i % 6 == 5 ? ' ' : (char)('a' + i % 26);
    *at = n;
    *len = n + (size_t)sprintf(text + n, "%s%s", marker, after);
    return text;
}

static char *with_head(const char *head, char *body, size_t *len, size_t *at) {
    size_t head_len = strlen(head);
    char *text = malloc(head_len + *len + 8);
    if (!text) die("malloc");
    memcpy(text, head, head_len);
    memcpy(text + head_len, body, *len);
    free(body);
    *len += head_len;
    *at += head_len;
    return text;
}

static size_t add_chunk(char *out, const char *event) { /* one HTTP chunk */
    return (size_t)sprintf(out, "%zx\r\n%s\r\n", strlen(event), event);
}

static void build_answers(size_t answer_bytes, size_t chunk_bytes) {
    char head[512];
    answer = filled("{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"created\":1764460800,"
                    "\"model\":\"bench-upstream\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                    "\"content\":\"",
                    "@0000000000~end",
                    "\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":400,"
                    "\"completion_tokens\":40,\"total_tokens\":440}}",
                    answer_bytes, &answer_len, &answer_rid_at);
    snprintf(head, sizeof head,
             "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n"
             "x-request-id: req_0123456789abcdef\r\ndate: Mon, 30 Nov 2026 00:00:00 GMT\r\n\r\n",
             answer_len);
    answer = with_head(head, answer, &answer_len, &answer_rid_at);
    answer_rid_at += 1; /* behind the @ */

    chunk = filled(CHUNK_HEAD "{\"content\":\"", "@000000:0000000000:000000:00000000000000000000;",
                   "\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n", chunk_bytes, &chunk_len, &chunk_marker_at);
    snprintf(head, sizeof head, "%zx\r\n", chunk_len);
    chunk = with_head(head, chunk, &chunk_len, &chunk_marker_at);
    memcpy(chunk + chunk_len, "\r\n", 2);
    chunk_len += 2;

    start_len = (size_t)sprintf(start, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
                                       "transfer-encoding: chunked\r\nx-request-id: req_0123456789abcdef\r\n\r\n");
    start_len += add_chunk(start + start_len, CHUNK_HEAD "{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},"
                                                         "\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    finish_len = add_chunk(finish, CHUNK_HEAD "{},\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\n");
    finish_len += add_chunk(finish + finish_len, "data: [DONE]\n\n");
    finish_len += (size_t)sprintf(finish + finish_len, "0\r\n\r\n");

    size_t unused = 0;
    models = strdup("{\"object\":\"list\",\"data\":[{\"id\":\"bench\",\"object\":\"model\",\"created\":1764460800,"
                    "\"owned_by\":\"bench\"}]}");
    models_len = strlen(models);
    snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n", models_len);
    models = with_head(head, models, &models_len, &unused);
}

void upstream_init(int port, size_t answer_bytes, size_t chunk_bytes) {
    int one = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    build_answers(answer_bytes, chunk_bytes);
    listener.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(listener.fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener.fd, (struct sockaddr *)&address, sizeof address)) die("bind of the upstream port");
    if (listen(listener.fd, 4096)) die("listen");
    loop_add(&listener, EPOLLIN);
}

void upstream_accept(struct link *l) {
    for (int fd; (fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct upstream *u = calloc(1, sizeof *u);
        if (!u || fd >= MAX_SLOTS) die("too many upstream connections");
        u->link = (struct link){.kind = LINK_UPSTREAM, .fd = fd};
        reader_reset(&u->request, false);
        slots[fd] = u;
        upstream_conns++;
        loop_add(&u->link, EPOLLIN);
    }
}

static void close_upstream(struct upstream *u) {
    if (u->queued) { /* rare: the gateway left a paced stream */
        struct upstream **at = &due_first;
        while (*at != u) at = &(*at)->next_due;
        *at = u->next_due;
        if (due_last == &u->next_due) due_last = at;
    }
    slots[u->link.fd] = NULL;
    loop_close(&u->link);
}

/* Writes all or keeps the rest for EPOLLOUT. A vanished peer is noticed by the next read. */
static void send_bytes(struct upstream *u, const char *data, size_t n) {
    size_t sent = 0;
    if (!u->out_len) {
        ssize_t wrote = send(u->link.fd, data, n, MSG_NOSIGNAL);
        if (wrote < 0 && errno != EAGAIN) return;
        sent = wrote > 0 ? (size_t)wrote : 0;
    }
    if (sent == n) return;
    if (u->out_len + n - sent > sizeof u->out) die("upstream: the gateway stopped reading and the buffer is full");
    if (!u->out_len) loop_want(&u->link, EPOLLIN | EPOLLOUT);
    memcpy(u->out + u->out_len, data + sent, n - sent);
    u->out_len += n - sent;
}

static void flush(struct upstream *u) {
    ssize_t wrote = send(u->link.fd, u->out, u->out_len, MSG_NOSIGNAL);
    if (wrote <= 0) return;
    u->out_len -= (size_t)wrote;
    memmove(u->out, u->out + wrote, u->out_len);
    if (!u->out_len) loop_want(&u->link, EPOLLIN);
}

static void finish_stream(struct upstream *u) {
    u->streaming = false;
    send_bytes(u, finish, finish_len);
}

static void send_chunk(struct upstream *u, uint64_t now) {
    char *m = chunk + chunk_marker_at + 1;
    write_digits(m, (uint64_t)u->link.fd, SLOT_DIGITS);
    write_digits(m += SLOT_DIGITS + 1, u->rid, RID_DIGITS);
    write_digits(m += RID_DIGITS + 1, (uint64_t)u->sent, SEQ_DIGITS);
    write_digits(m += SEQ_DIGITS + 1, now, TIME_DIGITS);
    u->sent++;
    send_bytes(u, chunk, chunk_len);
}

static void queue(struct upstream *u, uint64_t due) {
    u->due = due;
    u->queued = true;
    u->next_due = NULL;
    *due_last = u;
    due_last = &u->next_due;
}

void upstream_tick(uint64_t now) {
    while (due_first && due_first->due <= now) {
        struct upstream *u = due_first;
        due_first = u->next_due;
        if (!due_first) due_last = &due_first;
        u->queued = false;
        if (u->sent >= scenario.chunks) {
            finish_stream(u);
            continue;
        }
        if (u->out_len) upstream_stalls++; /* back-pressure: this stream skips a beat */
        else send_chunk(u, now);
        queue(u, now + scenario.interval);
    }
}

uint64_t upstream_next_due(void) { return due_first ? due_first->due : UINT64_MAX; }

static void send_granted(struct upstream *u) {
    for (; u->credit > 0 && u->sent < scenario.chunks; u->credit--) send_chunk(u, now_ns());
}

void upstream_grant(unsigned slot, uint64_t rid) {
    struct upstream *u = slot < MAX_SLOTS ? slots[slot] : NULL;
    if (!scenario.window || !u || !u->streaming || u->rid != rid) return;
    u->credit++;
    send_granted(u);
    if (u->sent >= scenario.chunks && u->credit >= scenario.window) finish_stream(u);
}

static void start_stream(struct upstream *u) {
    u->sent = 0;
    u->streaming = true;
    send_bytes(u, start, start_len);
    if (scenario.window) {
        u->credit = scenario.window;
        send_granted(u);
    } else if (scenario.interval) {
        uint64_t now = now_ns();
        send_chunk(u, now);
        queue(u, now + scenario.interval);
    } else {
        while (u->sent < scenario.chunks) send_chunk(u, now_ns());
        finish_stream(u);
    }
}

static bool asks_for_stream(const struct upstream *u) {
    const char *at = memmem(u->body, u->body_len, "\"stream\":", 9);
    if (!at) return false;
    const char *end = u->body + u->body_len;
    for (at += 9; at < end && *at == ' ';) at++;
    return at < end && *at == 't';
}

static void answer_request(struct upstream *u) {
    if (memcmp(u->request.head, "POST ", 5) != 0) { /* a gateway asks for our health or our models */
        send_bytes(u, models, models_len);
        return;
    }
    upstream_requests++;
    const char *rid = memmem(u->body, u->body_len, "rid-", 4);
    u->rid = rid && rid + 4 + RID_DIGITS <= u->body + u->body_len ? read_digits(rid + 4, RID_DIGITS) : 0;
    if (asks_for_stream(u)) {
        start_stream(u);
    } else {
        write_digits(answer + answer_rid_at, u->rid, RID_DIGITS);
        send_bytes(u, answer, answer_len);
    }
}

static void keep_body(void *owner, const char *data, size_t n) {
    struct upstream *u = owner;
    size_t room = sizeof u->body - u->body_len, kept = n < room ? n : room;
    memcpy(u->body + u->body_len, data, kept);
    u->body_len += kept;
}

void upstream_event(struct link *l, uint32_t events) {
    static char buffer[262144];
    struct upstream *u = (struct upstream *)l;
    if (events & EPOLLOUT && u->out_len) flush(u);
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
    ssize_t got = read(l->fd, buffer, sizeof buffer);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        close_upstream(u);
        return;
    }
    for (const char *p = buffer, *end = buffer + got; p < end;) {
        enum progress progress = reader_feed(&u->request, &p, end, keep_body, u);
        if (progress == MESSAGE_BAD) {
            close_upstream(u);
            return;
        }
        if (progress == MESSAGE_DONE) {
            answer_request(u);
            reader_reset(&u->request, false);
            u->body_len = 0;
        }
    }
}
