#include "pb_test.h"

#include <stdio.h>

#include "host/text/json.h"
#include "recording/compare.h"
#include "recording/made.h"
#include "recording/page.h"

struct parsed {
    struct pb_buf text;
    struct pb_arena arena;
    struct pb_json json;
};

static void parse(struct parsed *p, const struct pb_recording *r, const struct pb_page_opts *o)
{
    struct pb_err err = {0};

    memset(p, 0, sizeof *p);
    assert_true(pb_page_json(r, o, &p->text));
    if (pb_json_parse(&p->arena, p->text.data, p->text.len, &p->json, &err) < 0)
        fail_msg("%s: %.200s", err.msg, p->text.data);
}

static void finish(struct parsed *p)
{
    pb_buf_finish(&p->text);
    pb_arena_finish(&p->arena);
}

static size_t count(const struct parsed *p, const char *key)
{
    const struct pb_json *v = pb_json_get(&p->json, key);

    return v ? v->n : 0;
}

static int64_t cell(const struct parsed *p, const char *key, size_t i)
{
    const struct pb_json *v = pb_json_get(&p->json, key);

    assert_true(v && i < v->n && v->items[i].type == PB_J_INT);
    return v->items[i].v.i;
}

/* Microseconds of all leaves. */
static int64_t sum(const struct parsed *p, const char *key)
{
    int64_t all = 0;

    for (size_t i = 3; i < count(p, key); i += 4)
        all += cell(p, key, i);
    return all;
}

static void everything(void **state)
{
    struct pb_recording r;
    struct parsed p;

    (void)state;
    made_recording(&r);
    parse(&p, &r, &(struct pb_page_opts){0});
    assert_int_equal(count(&p, "frames"), 4);
    assert_int_equal(count(&p, "parent"), 5);
    assert_int_equal(count(&p, "threads"), 2);
    assert_int_equal(sum(&p, "leaves"), 70000);
    assert_int_equal(count(&p, "slot"), count(&p, "leaves") / 4);
    /* 40 ms in 120 slots: the one that lasted 30 reaches over 89 more. */
    assert_int_equal(pb_json_whole(pb_json_get(&p.json, "slots"), "n", 0), 120);
    assert_int_equal(count(&p, "span"), count(&p, "slot"));
    assert_null(pb_json_get(&p.json, "more"));
    assert_null(pb_json_get(&p.json, "before"));
    finish(&p);
    pb_recording_finish(&r);
}

/* A main with 1,000 callees of 1 to 1,000 microseconds, each with one of its own. */
static void make_wide(struct pb_recording *r)
{
    uint32_t top;
    char name[16];

    pb_recording_init(r);
    r->length_ns = 1000000000;
    pb_recording_thread(r, 42, 42, "MainThread");
    top = pb_stacks_child(&r->stacks, 0, &made_main);
    for (unsigned i = 1; i <= 1000; i++) {
        struct pb_prof_frame f = {name, "/app/x.py", (int)i, false};
        uint32_t node;

        snprintf(name, sizeof name, "f%u", i);
        node = pb_stacks_child(&r->stacks, pb_stacks_child(&r->stacks, top, &f), &made_step);
        made_add(r, 0, node, 0, i * 1000, PB_RUNNING);
    }
}

static void what_is_light_is_one_rest(void **state)
{
    struct pb_recording r;
    const struct pb_json *rest;
    struct parsed p;

    (void)state;
    make_wide(&r);
    parse(&p, &r, &(struct pb_page_opts){.max_nodes = 101});
    assert_int_equal(sum(&p, "leaves"), 500500); /* no time is lost */
    assert_in_range(count(&p, "parent"), 101, 104);
    for (size_t i = 1; i < count(&p, "parent"); i++)
        assert_true(cell(&p, "parent", i) < (int64_t)i);
    rest = &pb_json_get(&p.json, "frames")->items[count(&p, "frames") - 1];
    assert_int_equal(rest->items[3].v.i, 2);
    assert_non_null(strstr(rest->items[0].s, " more"));
    assert_in_range(count(&p, "more"), 1, 2);
    assert_string_equal(pb_json_get(&p.json, "more")->items[0].key, "1");
    finish(&p);
    pb_recording_finish(&r);
}

static void below_one_node(void **state)
{
    struct pb_recording r;
    struct parsed p;
    uint32_t node = 2 * 700; /* f700: each has a callee */

    (void)state;
    make_wide(&r);
    assert_string_equal(r.stacks.frames[r.stacks.nodes[node].frame].func, "f700");
    parse(&p, &r, &(struct pb_page_opts){.below_id = r.stacks.nodes[node].id, .max_nodes = 10});
    assert_int_equal(sum(&p, "leaves"), 700);
    assert_int_equal(count(&p, "parent"), 4); /* with the root and main */
    finish(&p);
    assert_false(pb_page_json(&r, &(struct pb_page_opts){.below_id = 12345}, &p.text));
    pb_recording_finish(&r);
}

static void a_comparison(void **state)
{
    struct pb_recording r, before;
    struct parsed p;

    (void)state;
    made_recording(&r);
    made_recording(&before);
    before.length_ns /= 2;
    for (size_t i = 0; i < before.nentries; i++)
        before.entries[i].weight_ns /= 2;
    pb_compare(&r, &before, "earlier");
    parse(&p, &r, &(struct pb_page_opts){.no_slots = true});
    assert_int_equal(sum(&p, "leaves"), 70000);
    assert_int_equal(sum(&p, "before"), 70000);
    assert_null(pb_json_get(&p.json, "slot"));
    assert_non_null(strstr(pb_json_str(&p.json, "info", ""), "compared with earlier"));
    finish(&p);
    pb_recording_finish(&before);
    pb_recording_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything),
        cmocka_unit_test(what_is_light_is_one_rest),
        cmocka_unit_test(below_one_node),
        cmocka_unit_test(a_comparison),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
