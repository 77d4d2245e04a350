#include "cli/settings/yaml.h"

#include <stdbool.h>
#include <string.h>
#include <yaml.h>

/* References to references multiply: bounds on nodes visited, and on bytes of keys and values. */
enum { VISITS_MAX = 10000, BYTES_MAX = 8 * PB_YAML_MAX };

struct walk {
    struct pb_arena *a;
    struct pb_err *err;
    struct pb_yaml *out;
    yaml_document_t *document;
    unsigned visits;
    size_t bytes;
};

static int add_node(struct walk *w, int index, const char *key, int depth, bool merged);

static int line_of(const yaml_node_t *node)
{
    return (int)node->start_mark.line + 1;
}

static int fail(struct walk *w, const yaml_node_t *at, const char *what)
{
    return pb_err_set(w->err, PB_USAGE, "line %d: %s", line_of(at), what);
}

/* Only what every reader knows: "!!int 5" is 5, "!secret x" could be anything. */
static int check_tag(struct walk *w, const yaml_node_t *node)
{
    static const char standard[] = "tag:yaml.org,2002:";
    const char *tag = (const char *)node->tag;

    if (!tag || strncmp(tag, standard, sizeof standard - 1) == 0)
        return 0;
    return pb_err_set(w->err, PB_USAGE, "line %d: unknown tag '%.40s'", line_of(node), tag);
}

static int scalar(struct walk *w, const yaml_node_t *node, const char **ret)
{
    const char *text = (const char *)node->data.scalar.value;
    size_t len = node->data.scalar.length;

    w->bytes += len;
    if (w->bytes > BYTES_MAX)
        return fail(w, node, "too many references");
    *ret = pb_arena_strndup(w->a, text, len);
    return strlen(*ret) == len ? 0 : fail(w, node, "not text");
}

/* merged: from a "<<"; what the mapping itself says counts more. */
static int add_pair(struct walk *w, const char *key, const char *value, int line, bool merged)
{
    struct pb_yaml *out = w->out;

    for (size_t i = 0; i < out->n; i++) {
        if (strcmp(out->v[i].key, key) != 0)
            continue;
        return merged ? 0
                      : pb_err_set(w->err, PB_USAGE, "line %d: '%.80s' stands in line %d already",
                                   line, key, out->v[i].line);
    }
    if (out->n == PB_YAML_PAIRS)
        return pb_err_set(w->err, PB_USAGE, "line %d: too many keys", line);
    if (out->n == out->cap) {
        size_t size = sizeof *out->v, cap = out->cap ? 2 * out->cap : 16;

        out->v = pb_arena_grow(w->a, out->v, out->cap * size, cap * size);
        out->cap = cap;
    }
    out->v[out->n++] = (struct pb_yaml_pair){key, value, line};
    return 0;
}

static int add_scalar(struct walk *w, const yaml_node_t *node, const char *key, bool merged)
{
    bool plain = node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    const char *value;

    if (!*key)
        return fail(w, node, "expected 'key: value'");
    if (scalar(w, node, &value) < 0)
        return -1;
    if (plain && (!*value || strcmp(value, "~") == 0 || strcmp(value, "null") == 0))
        return pb_err_set(w->err, PB_USAGE, "line %d: '%.80s' has no value", line_of(node), key);
    return add_pair(w, key, value, line_of(node), merged);
}

static bool is_merge(const yaml_node_t *key)
{
    return key->type == YAML_SCALAR_NODE && key->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           strcmp((const char *)key->data.scalar.value, "<<") == 0;
}

/* One "key: value" of a mapping whose own key is `around`; merges: only "<<", else all but it. */
static int add_entry(struct walk *w, const yaml_node_pair_t *pair, const char *around, int depth,
                     bool merges, bool merged)
{
    const yaml_node_t *key = yaml_document_get_node(w->document, pair->key);
    const char *name;

    if (is_merge(key) != merges)
        return 0;
    if (merges)
        return add_node(w, pair->value, around, depth, true);
    if (key->type != YAML_SCALAR_NODE)
        return fail(w, key, "a key must be a word");
    if (scalar(w, key, &name) < 0)
        return -1;
    if (!*name)
        return fail(w, key, "expected 'key: value'");
    w->bytes += strlen(around);
    name = pb_arena_printf(w->a, "%s%s%s", around, *around ? "." : "", name);
    return add_node(w, pair->value, name, depth + 1, merged);
}

static int add_mapping(struct walk *w, const yaml_node_t *node, const char *key, int depth,
                       bool merged)
{
    const yaml_node_pair_t *pair, *end = node->data.mapping.pairs.top;

    if (node->data.mapping.pairs.start == end && *key && !merged)
        return pb_err_set(w->err, PB_USAGE, "line %d: '%.80s' has no value", line_of(node), key);
    for (int merges = 0; merges <= 1; merges++)
        for (pair = node->data.mapping.pairs.start; pair < end; pair++)
            if (add_entry(w, pair, key, depth, merges, merged) < 0)
                return -1;
    return 0;
}

/* A list of mappings says the same as one mapping; no setting takes several values. */
static int add_list(struct walk *w, const yaml_node_t *node, const char *key, int depth,
                    bool merged)
{
    const yaml_node_item_t *item, *end = node->data.sequence.items.top;

    for (item = node->data.sequence.items.start; item < end; item++) {
        const yaml_node_t *child = yaml_document_get_node(w->document, *item);

        if (child->type == YAML_SCALAR_NODE)
            return fail(w, child, *key ? "one value is wanted here, not a list"
                                       : "expected 'key: value'");
        if (add_node(w, *item, key, depth + 1, merged) < 0)
            return -1;
    }
    return 0;
}

static int add_node(struct walk *w, int index, const char *key, int depth, bool merged)
{
    const yaml_node_t *node = yaml_document_get_node(w->document, index);

    if (depth > PB_YAML_DEPTH)
        return fail(w, node, "too many levels");
    if (++w->visits > VISITS_MAX)
        return fail(w, node, "too many references");
    if (check_tag(w, node) < 0)
        return -1;
    if (node->type == YAML_MAPPING_NODE)
        return add_mapping(w, node, key, depth, merged);
    if (node->type == YAML_SEQUENCE_NODE)
        return add_list(w, node, key, depth, merged);
    return add_scalar(w, node, key, merged);
}

static int syntax_error(const yaml_parser_t *p, struct pb_err *err)
{
    size_t line = p->problem_mark.line;

    if (p->error == YAML_SCANNER_ERROR && p->buffer.pointer < p->buffer.last &&
        *p->buffer.pointer == '\t')
        return pb_err_set(err, PB_USAGE, "line %zu: a tab cannot indent", line + 1);
    if (p->error == YAML_READER_ERROR)
        return pb_err_set(err, PB_USAGE, "byte %zu: %s", p->problem_offset,
                          p->problem ? p->problem : "not text");
    return pb_err_set(err, PB_USAGE, "line %zu: %s%s%s", line + 1,
                      p->problem ? p->problem : "not understood", p->context ? " " : "",
                      p->context ? p->context : "");
}

static int read_document(yaml_parser_t *p, struct walk *w)
{
    yaml_document_t document;
    int rc = 0;

    if (!yaml_parser_load(p, &document))
        return syntax_error(p, w->err);
    w->document = &document;
    if (yaml_document_get_root_node(&document))
        rc = add_node(w, 1, "", 0, false);
    yaml_document_delete(&document);
    return rc;
}

/* Whatever follows the first document. */
static int refuse_more(yaml_parser_t *p, struct walk *w)
{
    yaml_document_t document;
    const yaml_node_t *root;
    int rc = 0;

    if (!yaml_parser_load(p, &document))
        return syntax_error(p, w->err);
    root = yaml_document_get_root_node(&document);
    if (root)
        rc = fail(w, root, "a second document");
    yaml_document_delete(&document);
    return rc;
}

int pb_yaml_parse(struct pb_yaml *ret, struct pb_arena *a, const char *text, size_t len,
                  struct pb_err *err)
{
    struct walk w = {.a = a, .err = err, .out = ret};
    yaml_parser_t parser;
    int rc;

    *ret = (struct pb_yaml){0};
    if (len > PB_YAML_MAX)
        return pb_err_set(err, PB_USAGE, "longer than %d KB", PB_YAML_MAX >> 10);
    if (!yaml_parser_initialize(&parser))
        return pb_err_set(err, PB_FAIL, "no memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    rc = read_document(&parser, &w);
    if (rc == 0 && ret->n)
        rc = refuse_more(&parser, &w);
    yaml_parser_delete(&parser);
    return rc;
}
