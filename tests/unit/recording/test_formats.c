#include "pb_test.h"

#include "host/text/json.h"
#include "recording/made.h"

struct made {
    struct pb_recording r;
    struct pb_buf text;
    struct pb_arena arena;
    struct pb_json json;
};

static void make(struct made *m, const char *format)
{
    memset(m, 0, sizeof *m);
    made_recording(&m->r);
    pb_format_find(format)->write(&m->r, &m->text);
}

static void make_json(struct made *m, const char *format)
{
    struct pb_err err = {0};

    make(m, format);
    if (pb_json_parse(&m->arena, m->text.data, m->text.len, &m->json, &err) < 0)
        fail_msg("%s: %s", format, err.msg);
}

static void done(struct made *m)
{
    pb_recording_finish(&m->r);
    pb_buf_finish(&m->text);
    pb_arena_finish(&m->arena);
}

static const struct pb_json *at(const struct pb_json *array, size_t i)
{
    assert_non_null(array);
    assert_true(i < array->n);
    return &array->items[i];
}

static void by_ending(void **state)
{
    (void)state;
    assert_string_equal(pb_format_by_path("a.svg")->name, "svg");
    assert_string_equal(pb_format_by_path("a.json")->name, "speedscope");
    assert_string_equal(pb_format_by_path("a.trace.json")->name, "chrome");
    assert_string_equal(pb_format_by_path("x/a.gecko.json")->name, "gecko");
    assert_string_equal(pb_format_by_path("a.pb")->name, "pprof");
    assert_null(pb_format_by_path("a.png"));
    assert_null(pb_format_by_path(".svg"));
}

static void collapsed(void **state)
{
    struct made m;

    (void)state;
    make(&m, "collapsed");
    assert_string_equal(m.text.data,
                        "main (train.py:15);step (a/b.py:7) 20000\n"
                        "main (train.py:15);a\"<b>&':??[31m?</script> (script>:3) 20000\n"
                        "poll (libc.so.6) 30000\n");
    done(&m);
}

static void speedscope(void **state)
{
    const struct pb_json *frames, *profile;
    struct made m;

    (void)state;
    make_json(&m, "speedscope");
    frames = pb_json_get(pb_json_get(&m.json, "shared"), "frames");
    assert_int_equal(frames->n, 4);
    assert_string_equal(pb_json_str(at(frames, 1), "name", ""), "step");
    assert_int_equal(pb_json_whole(at(frames, 1), "line", 0), 7);
    assert_int_equal(pb_json_get(&m.json, "profiles")->n, 2);
    profile = at(pb_json_get(&m.json, "profiles"), 0);
    assert_string_equal(pb_json_str(profile, "type", ""), "sampled");
    assert_string_equal(pb_json_str(profile, "unit", ""), "nanoseconds");
    assert_string_equal(pb_json_str(profile, "name", ""), "MainThread (42)");
    assert_int_equal(pb_json_whole(profile, "endValue", 0), 40000000);
    assert_int_equal(at(at(pb_json_get(profile, "samples"), 0), 1)->v.i, 1);
    assert_int_equal(at(pb_json_get(profile, "weights"), 1)->v.i, 20000000);
    done(&m);
}

/* Whole events, since viewers do not agree on how begin and end are matched. */
static void chrome(void **state)
{
    const struct pb_json *events;
    double from[3] = {-1, -1, -1}, length[3] = {0};
    struct made m;

    (void)state;
    make_json(&m, "chrome");
    events = pb_json_get(&m.json, "traceEvents");
    for (size_t i = 0; i < events->n; i++) {
        const char *name = pb_json_str(at(events, i), "name", "");
        size_t which = name[0] == 'm' ? 0 : name[0] == 's' ? 1 : 2;

        if (strcmp(pb_json_str(at(events, i), "ph", ""), "X") != 0 ||
            pb_json_whole(at(events, i), "tid", 0) != 42)
            continue;
        assert_true(from[which] < 0); /* main stays open from step to the next */
        from[which] = pb_json_number(at(events, i), "ts", -1);
        length[which] = pb_json_number(at(events, i), "dur", -1);
    }
    assert_true(from[0] == 0 && length[0] == 40000);
    assert_true(from[1] == 0 && length[1] == 20000);
    assert_true(from[2] == 20000 && length[2] == 20000);
    done(&m);
}

static void gecko(void **state)
{
    const struct pb_json *thread, *stacks, *samples;
    struct made m;

    (void)state;
    make_json(&m, "gecko");
    assert_int_equal(pb_json_get(&m.json, "threads")->n, 2);
    thread = at(pb_json_get(&m.json, "threads"), 0);
    stacks = pb_json_get(thread, "stackTable");
    assert_int_equal(pb_json_whole(stacks, "length", 0), 4);
    assert_int_equal(at(pb_json_get(stacks, "prefix"), 0)->type, PB_J_NULL);
    assert_int_equal(at(pb_json_get(stacks, "prefix"), 1)->v.i, 0);
    samples = pb_json_get(thread, "samples");
    assert_int_equal(pb_json_whole(samples, "length", 0), 2);
    assert_int_equal(at(pb_json_get(samples, "stack"), 0)->v.i, 1);
    assert_int_equal((int)at(pb_json_get(samples, "weight"), 0)->v.d, 20);
    assert_string_equal(at(pb_json_get(thread, "stringArray"), 2)->s, "step");
    done(&m);
}

static uint64_t varint(const uint8_t **p, const uint8_t *end)
{
    uint64_t v = 0;

    for (int shift = 0; *p < end; shift += 7) {
        uint8_t c = *(*p)++;

        v |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80))
            break;
    }
    return v;
}

/* A message within is a length and as many bytes; anything else here is a number. */
static void pprof(void **state)
{
    const uint8_t *p, *end;
    unsigned fields[16] = {0};
    struct made m;

    (void)state;
    make(&m, "pprof");
    p = (const uint8_t *)m.text.data;
    end = p + m.text.len;
    while (p < end) {
        uint64_t key = varint(&p, end), v;

        assert_true(key >> 3 < 16);
        v = varint(&p, end);
        if (!fields[6] && key >> 3 == 6)
            assert_int_equal(v, 0); /* the first string is empty */
        fields[key >> 3]++;
        if ((key & 7) == 2) {
            assert_true(v <= (size_t)(end - p));
            p += v;
        } else {
            assert_int_equal(key & 7, 0);
        }
    }
    assert_int_equal(fields[1], 2);
    assert_int_equal(fields[2], 3);
    assert_int_equal(fields[4], 4);
    assert_int_equal(fields[5], 4);
    assert_int_equal(fields[9], 1);
    done(&m);
}

static void svg(void **state)
{
    struct made m;

    (void)state;
    make(&m, "svg");
    assert_non_null(strstr(m.text.data, "step (a/b.py:7) 0.020 s, 28.57 %</title>"));
    assert_non_null(strstr(m.text.data, "a&quot;&lt;b&gt;&amp;';\xef\xbf\xbd\xef\xbf\xbd[31m"));
    assert_null(strstr(m.text.data, "<script"));
    assert_null(strstr(m.text.data, "</script"));
    assert_null(strchr(m.text.data, 0x1b));
    done(&m);
}

#ifdef PB_WEB
/* What the script of a page reads. */
static const char *data_of(const char *page, size_t *ret_len)
{
    const char *data = strstr(page, "id=\"data\">");

    assert_non_null(data);
    data += strlen("id=\"data\">");
    *ret_len = (size_t)(strstr(data, "</script>") - data);
    return data;
}

static void html(void **state)
{
    struct pb_err err = {0};
    const char *data;
    struct made m;
    size_t len;

    (void)state;
    make(&m, "html");
    data = data_of(m.text.data, &len);
    assert_int_equal(pb_json_parse(&m.arena, data, len, &m.json, &err), 0);
    assert_int_equal(pb_json_get(&m.json, "parent")->n, 5);
    assert_int_equal(pb_json_get(&m.json, "leaves")->n, 12);
    assert_null(memchr(data, '<', len));
    assert_null(strstr(m.text.data, "http://"));
    assert_null(strstr(m.text.data, "https://"));
    done(&m);
}

static void html_is_ascii(void **state)
{
    struct pb_err err = {0};
    struct made m = {0};
    const char *data;
    size_t len;

    (void)state;
    pb_recording_init(&m.r);
    m.r.command = "train\u00e4 \u2013 \U0001f600 <b>.py";
    pb_format_html(&m.r, &m.text);
    assert_true(m.text.len < 60000);
    for (size_t i = 0; i < m.text.len; i++)
        assert_in_range((unsigned char)m.text.data[i], 1, 0x7f);
    data = data_of(m.text.data, &len);
    assert_int_equal(pb_json_parse(&m.arena, data, len, &m.json, &err), 0);
    assert_non_null(strstr(pb_json_str(&m.json, "title", ""), m.r.command));
    done(&m);
}
#endif

static void nothing_recorded(void **state)
{
    (void)state;
    for (const struct pb_format *f = pb_formats; f->name; f++) {
        struct pb_buf out = PB_BUF_INIT;
        struct pb_recording r;

        pb_recording_init(&r);
        r.command = "";
        f->write(&r, &out);
        pb_buf_finish(&out);
        pb_recording_finish(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_ending), cmocka_unit_test(collapsed),
        cmocka_unit_test(speedscope), cmocka_unit_test(chrome),
        cmocka_unit_test(gecko),     cmocka_unit_test(pprof),
        cmocka_unit_test(svg),       cmocka_unit_test(nothing_recorded),
#ifdef PB_WEB
        cmocka_unit_test(html),
        cmocka_unit_test(html_is_ascii),
#endif
    };

    return RUN_TESTS(tests);
}
