/* Source lines from hand-built debug information of both generations. */
#include <stdio.h>

#include "pb_test.h"
#include "stack/native/symbols/dwarf_line.h"

#include "stack/native/line_program.h"

struct scene {
    struct bytes line, line_str, info, abbrev, aranges;
    struct pb_dwarf d;
    struct pb_arena a;
};

static struct pb_elf_range range(const struct bytes *b)
{
    return (struct pb_elf_range){b->v, b->n, 0};
}

static void set_up(struct scene *s, unsigned version)
{
    memset(s, 0, sizeof *s);
    build_line(&s->line, version);
    build_line_str(&s->line_str);
    build_info(&s->info, version, 0);
    build_abbrev(&s->abbrev);
    build_aranges(&s->aranges, 0, LINE_CODE, 16);
    s->d = (struct pb_dwarf){.line = range(&s->line),
                             .line_str = range(&s->line_str),
                             .info = range(&s->info),
                             .abbrev = range(&s->abbrev),
                             .aranges = range(&s->aranges)};
}

static void assert_line(struct scene *s, uint64_t vaddr, const char *expected)
{
    struct pb_symbol_query w = {.vaddr = vaddr};
    char text[256];

    assert_int_equal(pb_dwarf_run_lines(&s->d, 0, &w, 1, 1, &s->a), s->line.n);
    snprintf(text, sizeof text, "%s:%d", w.file ? w.file : "?", w.lineno);
    assert_string_equal(text, expected);
}

static void version_4(void **state)
{
    struct scene s;

    (void)state;
    set_up(&s, 4);
    assert_line(&s, LINE_CODE, "main.c:10");
    assert_line(&s, LINE_CODE + 3, "main.c:10");
    assert_line(&s, LINE_CODE + 4, "main.c:12");
    assert_line(&s, LINE_CODE + 8, "main.c:20");
    assert_line(&s, LINE_CODE + 15, "include/part.h:7");
    assert_line(&s, LINE_CODE + 16, "?:0");
    assert_line(&s, LINE_CODE - 1, "?:0");
    pb_arena_finish(&s.a);
}

static void version_5(void **state)
{
    struct scene s;

    (void)state;
    set_up(&s, 5);
    assert_line(&s, LINE_CODE + 5, "/src/main.c:12");
    assert_line(&s, LINE_CODE + 12, "inc/part.h:7");
    pb_arena_finish(&s.a);
}

static void many_addresses_in_one_run(void **state)
{
    struct pb_symbol_query w[4] = {
        {.vaddr = 1}, {.vaddr = LINE_CODE}, {.vaddr = LINE_CODE + 9}, {.vaddr = LINE_CODE + 100}};
    struct scene s;

    (void)state;
    set_up(&s, 4);
    pb_dwarf_run_lines(&s.d, 0, w, 4, 4, &s.a);
    assert_null(w[0].file);
    assert_int_equal(w[1].lineno, 10);
    assert_int_equal(w[2].lineno, 20);
    assert_null(w[3].file);
    pb_arena_finish(&s.a);
}

static void ranges_lead_to_the_unit(void **state)
{
    struct pb_symbol_query w[2] = {{.vaddr = LINE_CODE + 15}, {.vaddr = LINE_CODE + 16}};
    uint64_t offset;

    (void)state;
    for (unsigned version = 4; version <= 5; version++) {
        struct scene s;

        set_up(&s, version);
        s.info.n = 0;
        build_info(&s.info, version, 0x1234);
        s.d.info = range(&s.info);
        pb_dwarf_find_units(&s.d, w, 2, &s.a);
        assert_true(w[0].has_unit);
        assert_false(w[1].has_unit);
        assert_true(pb_dwarf_unit_lines(&s.d, w[0].unit, &offset));
        assert_int_equal(offset, 0x1234);
        assert_false(pb_dwarf_unit_lines(&s.d, 5, &offset));
        pb_arena_finish(&s.a);
    }
}

static void every_cut_is_harmless(void **state)
{
    (void)state;
    for (unsigned version = 4; version <= 5; version++) {
        struct scene s;

        set_up(&s, version);
        for (size_t n = 0; n < s.line.n; n++) {
            struct pb_symbol_query w = {.vaddr = LINE_CODE + 13};

            s.d.line.size = n;
            assert_int_equal(pb_dwarf_run_lines(&s.d, 0, &w, 1, 1, &s.a), 0);
        }
        pb_arena_finish(&s.a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_4),
        cmocka_unit_test(version_5),
        cmocka_unit_test(many_addresses_in_one_run),
        cmocka_unit_test(ranges_lead_to_the_unit),
        cmocka_unit_test(every_cut_is_harmless),
    };

    return RUN_TESTS(tests);
}
