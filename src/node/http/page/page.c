#include "node/http/page/page.h"

#include <stdio.h>
#include <string.h>

#include "node/http/request.h"
#include "node/http/server.h"

#ifdef PB_WEB
extern const struct pb_page_file pb_page_files[] __attribute__((visibility("hidden")));
#else
static const struct pb_page_file pb_page_files[] = {{0}};
#endif

/*
 * Scripts, styles and connections of this server alone, and no other page around it. There is no
 * Cross-Origin-Opener-Policy: the page hands traces to Perfetto's, which it opens.
 */
#define POLICY                                                                                     \
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "            \
    "object-src 'none'"

const struct pb_page_file *pb_page_find(const char *path)
{
    for (const struct pb_page_file *f = pb_page_files; f->path; f++)
        if (strcmp(f->path, path) == 0)
            return f;
    return NULL;
}

bool pb_server_has_page(void)
{
    return pb_page_files[0].path != NULL;
}

/* If-None-Match: a list of quoted marks, or a star. */
static bool has_it(const struct pb_request *rq, const char *etag)
{
    const char *marks = pb_http_header(rq->head, "If-None-Match");
    char quoted[40];

    snprintf(quoted, sizeof quoted, "\"%s\"", etag);
    return marks && (strstr(marks, quoted) || strcmp(marks, "*") == 0);
}

void pb_page_reply(struct pb_request *rq, const struct pb_page_file *f)
{
    bool named_by_hash = strncmp(f->path, "/assets/", 8) == 0, same = has_it(rq, f->etag);
    char etag[40];

    snprintf(etag, sizeof etag, "\"%s\"", f->etag);
    pb_reply_begin(rq, same ? 304 : 200, f->type);
    pb_reply_policy(rq, named_by_hash ? "public, max-age=31536000, immutable" : "no-cache", POLICY);
    pb_reply_note(rq, "ETag", etag);
    if (!named_by_hash)
        pb_reply_note(rq, "Vary", "Accept");
    pb_reply_note(rq, "Referrer-Policy", "no-referrer");
    if (!same) {
        pb_reply_note(rq, "Content-Encoding", "gzip");
        pb_reply_whole(rq, f->data, f->len);
    }
    pb_reply_end(rq);
}
