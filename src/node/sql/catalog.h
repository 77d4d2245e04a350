/*
 * catalog.h - every table that SQL knows: its columns, its words, and the view behind its name.
 *
 * Owns: all names and texts, in one arena that is renewed with them.
 * Threads: one that changes it while nobody reads (pb_sql's catalog_lock).
 * Fails: never to build; making a view fails with the engine's words.
 * Not here: rows (scan_*.c).
 *
 * Tables come from the lists that are linked in (agents' tables, samplers, live tables, short
 * names in share/views), from the rings that are there now, and from the archive. A view is made
 * when a statement first names it, and made again when its text has changed.
 */
#ifndef PB_NODE_SQL_CATALOG_H
#define PB_NODE_SQL_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "host/text/arena.h"
#include "host/text/buf.h"
#include "node/archive/archive.h"
#include "node/discover/discover.h"
#include "node/rows/live.h"
#include "store/writer.h"

struct pb_elsewhere;
struct pb_sql;
struct pb_sql_conn;

enum pb_catalog_source { PB_FROM_RING, PB_FROM_LIVE, PB_FROM_VIEW };

struct pb_catalog_table {
    const char *name; /* "python.memory", "memory_usage" */
    const char *doc;
    enum pb_catalog_source source;
    struct pb_column_spec *columns; /* all that SQL shows, with host, pid and rank */
    size_t ncolumns, cap;
    bool shared;   /* rows are about other processes: filtered by their own pid */
    bool archived; /* has files: rows of rings that are sealed are read from there */
    const struct pb_live *live; /* FROM_LIVE */
    const char *sql; /* a view's SELECT, as it stands behind AS */
};

/* A view as DuckDB has it. */
struct pb_catalog_made {
    char *name, *sql;
    bool commented;
};

struct pb_catalog {
    struct pb_arena arena;
    struct pb_catalog_table *tables; /* by name */
    size_t ntables, cap;
    uint64_t stores_changes, archive_sum, elsewhere_changes; /* what it was built from */
    bool built;
    struct pb_catalog_made *made;
    size_t nmade, made_cap;
};

void pb_catalog_finish(struct pb_catalog *c);
/* Is it still right? files may be NULL. */
bool pb_catalog_fits(const struct pb_catalog *c, const struct pb_stores *stores,
                     const struct pb_archive_table *files, size_t nfiles,
                     const struct pb_elsewhere *elsewhere);
/* learn: asked for the columns of a table of which only files are left. */
typedef void pb_catalog_learn(struct pb_catalog *c, struct pb_catalog_table *t,
                              const struct pb_archive_table *files, void *arg);
void pb_catalog_build(struct pb_catalog *c, const struct pb_stores *stores,
                      const struct pb_archive_table *files, size_t nfiles,
                      const struct pb_elsewhere *elsewhere, pb_catalog_learn *learn, void *arg);
/* NULL when there is none of that name; case does not matter. */
struct pb_catalog_table *pb_catalog_find(const struct pb_catalog *c, const char *name);

/* Is it in the lists that are linked in? Needs no catalog. */
bool pb_catalog_is_known(const char *name);
/* Can SQL and folders bear it: letters, digits and _ with one dot between? */
bool pb_catalog_is_table_name(const char *name);
/* A column of that name is there already: floating point from now on if one of both is. */
bool pb_catalog_widen(struct pb_catalog_table *t, const char *name, enum pb_type type);
/* Types as SQL writes them, and back; false: there is no such type of columns. */
const char *pb_catalog_type_name(enum pb_type type);
bool pb_catalog_type(const char *name, enum pb_type *ret);

enum { PB_CATALOG_NAME = PB_RING_COLUMN_NAME + 2 };
/*
 * What a name of a column becomes: valid UTF-8, and since "date" would be hidden by the archive's
 * folders, "date_". Returns buf.
 */
const char *pb_catalog_column(const char *name, char buf[PB_CATALOG_NAME]);

/* The short names of share/views. */
struct pb_share_view {
    const char *name, *text, *end;
};
extern const struct pb_share_view pb_share_views[];
/* Adds their tables, with words from their comments. */
void pb_catalog_add_views(struct pb_catalog *c);
struct pb_catalog_table *pb_catalog_add(struct pb_catalog *c, const char *name, const char *doc,
                                        enum pb_catalog_source source);
void pb_catalog_add_column(struct pb_catalog *c, struct pb_catalog_table *t, const char *name,
                           enum pb_type type, const char *unit, const char *doc);

/*
 * Puts in front of each short name's text what the texts of its parts come to, so that it is made
 * anew, with its parts, when one of those is another: when the first file of a table is there.
 */
void pb_views_sign(struct pb_catalog *c);
/* Makes the views that the words of a statement name, and what those need. */
bool pb_views_missing(struct pb_sql *s, const char *sql, size_t len);
int pb_views_make(struct pb_sql *s, struct pb_sql_conn *c, const char *sql, size_t len,
                  struct pb_err *err);
/* A pb_catalog_learn; arg is a struct pb_views_learner. */
struct pb_views_learner {
    struct pb_sql *sql;
    struct pb_sql_conn *conn;
};
pb_catalog_learn pb_views_learn;
/* Appends the SELECT over a table's files, without its end. */
void pb_catalog_put_files(struct pb_buf *b, const struct pb_archive_table *files);
/* Removes those whose table is gone. */
int pb_views_drop_stale(struct pb_sql *s, struct pb_sql_conn *c, struct pb_err *err);

#endif
