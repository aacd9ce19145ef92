/* Incremental reader of HTTP/1.1 messages. Enough for the well-behaved peers of a benchmark, and no more. */
#include "loadgen.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void reader_reset(struct reader *r, bool is_response) {
    r->state = IN_HEAD;
    r->is_response = is_response;
    r->close = false;
    r->status = 0;
    r->left = r->line = r->head_len = 0;
}

static const char *field(const struct reader *r, const char *name_with_colon) {
    const char *at = strcasestr(r->head, name_with_colon);
    return at ? at + strlen(name_with_colon) : NULL;
}

/* Decides the framing once the head is complete. */
static enum progress head_done(struct reader *r) {
    if (r->is_response) {
        r->status = atoi(r->head + strlen("HTTP/1.1 "));
        if (r->status == 100) {
            reader_reset(r, true);
            return NEED_MORE;
        }
    }
    const char *connection = field(r, "\r\nconnection:");
    while (connection && *connection == ' ') connection++;
    r->close = connection && strncasecmp(connection, "close", 5) == 0;
    const char *length = field(r, "\r\ncontent-length:");
    if (field(r, "\r\ntransfer-encoding:")) {
        r->state = IN_CHUNK_SIZE;
        r->left = 0;
    } else if (length) {
        r->left = strtoul(length, NULL, 10);
        r->state = IN_SIZED;
        if (r->left == 0) return MESSAGE_DONE;
    } else if (r->is_response) {
        r->state = UNTIL_CLOSE;
    } else {
        return MESSAGE_DONE;
    }
    return NEED_MORE;
}

/* Takes bytes up to and including the blank line. */
static enum progress feed_head(struct reader *r, const char **p, const char *end) {
    size_t room = sizeof r->head - 1 - r->head_len, have = (size_t)(end - *p), n = have < room ? have : room;
    size_t before = r->head_len, from = before > 3 ? before - 3 : 0;
    memcpy(r->head + before, *p, n);
    char *blank = memmem(r->head + from, before + n - from, "\r\n\r\n", 4);
    if (!blank) {
        r->head_len += n;
        *p += n;
        return n < have ? MESSAGE_BAD : NEED_MORE;
    }
    r->head_len = (size_t)(blank - r->head) + 4;
    *p += r->head_len - before;
    r->head[r->head_len] = 0;
    return head_done(r);
}

static void feed_chunk_size(struct reader *r, char c) {
    if (c == '\n') {
        r->state = r->left ? IN_CHUNK_DATA : IN_TRAILER;
        r->line = 0;
    } else if (isxdigit((unsigned char)c)) {
        r->left = r->left * 16 + (size_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
}

enum progress reader_feed(struct reader *r, const char **p, const char *end, body_sink *sink, void *owner) {
    while (*p < end) {
        size_t have = (size_t)(end - *p), n = have < r->left ? have : r->left;
        char c = **p;
        enum progress progress;
        switch (r->state) {
        case IN_HEAD:
            progress = feed_head(r, p, end);
            if (progress != NEED_MORE) return progress;
            break;
        case IN_SIZED:
        case IN_CHUNK_DATA:
            sink(owner, *p, n);
            *p += n;
            r->left -= n;
            if (r->left) break;
            if (r->state == IN_SIZED) return MESSAGE_DONE;
            r->state = IN_CHUNK_END;
            break;
        case IN_CHUNK_SIZE:
            if (c != '\n' && c != '\r' && c != ';' && !isxdigit((unsigned char)c)) return MESSAGE_BAD;
            feed_chunk_size(r, c);
            ++*p;
            break;
        case IN_CHUNK_END:
            if (c == '\n') r->state = IN_CHUNK_SIZE;
            ++*p;
            break;
        case IN_TRAILER:
            ++*p;
            if (c == '\n' && r->line == 0) return MESSAGE_DONE;
            r->line = c == '\n' ? 0 : c == '\r' ? r->line : r->line + 1;
            break;
        case UNTIL_CLOSE:
            sink(owner, *p, have);
            *p = end;
            break;
        }
    }
    return NEED_MORE;
}
