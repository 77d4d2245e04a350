/* Lines of real code objects: each instruction has the line that Python itself gives. */
#include "stack/python/live.h"

#include "cpython/lines.h"

/* Prints for every code object: address, then pairs of instruction offset and line. */
static const char script[] = LIVE_PROLOGUE
    "import dis\n"
    "keep = []\n"
    "def lines(code):\n"
    "    if hasattr(code, 'co_lines'):\n"
    "        for start, end, line in code.co_lines():\n"
    "            for at in sorted({start, (start + end) // 4 * 2, end - 2}):\n"
    "                if start <= at < end:\n"
    "                    yield at, line or 0\n"
    "        return\n"
    "    last = None\n"
    "    for start, line in dis.findlinestarts(code):\n"
    "        if last is not None:\n"
    "            yield start - 1, last\n"
    "        last = line\n"
    "        yield start, line\n"
    "    yield len(code.co_code) - 1, last\n"
    "def show(code):\n"
    "    keep.append(code)\n"
    "    pairs = ' '.join('%d %d' % pair for pair in lines(code))\n"
    "    out.write('%d %s\\n' % (id(code), pairs))\n"
    "    for const in code.co_consts:\n"
    "        if hasattr(const, 'co_code'):\n"
    "            show(const)\n"
    "def source(name):\n"
    "    path = os.path.join(os.path.dirname(os.__file__), name)\n"
    "    with open(path, encoding='utf-8') as f:\n"
    "        show(compile(f.read(), name, 'exec'))\n"
    "for name in ['os.py', 'argparse.py', 'threading.py', 'asyncio/base_events.py']:\n"
    "    source(name)\n"
    /* Gaps longer than any single step, lines that go back, one line with much code. */
    "def text(*parts):\n"
    "    show(compile(''.join(p if isinstance(p, str) else '\\n' * p for p in parts), 't', "
    "'exec'))\n"
    "text('a = 1', 1001, 'b = 2', 128, 'c = 3', 129, 'd = 4', 70000, 'e = 5', 1)\n"
    "text('f(', 301, 'a,', 201, 'g(b,', 2, 'c),', 1, 'd)', 1)\n"
    "text('x = ', ' + '.join('v%d' % i for i in range(400)), 1, 'y = 1', 1)\n"
    "text('def f():', 1, '  try:', 1, '    with a:', 1, '      for i in b:', 1, '        yield "
    "[j', 1,\n"
    "     '          for j in c', 1, '          if j]', 1, '  finally:', 1, '    d', "
    "1)\n" LIVE_EPILOGUE;

static int check_code(struct live *t, struct pb_py_reader *r, uint64_t addr, char *pairs)
{
    uint64_t table_at = 0;
    uint32_t first = 0;
    uint8_t *table;
    size_t len = 0;
    int wrong = 0;

    assert_true(pb_mem_u64(&t->mem, addr + (uint64_t)t->py->co_linetable, &table_at));
    assert_true(pb_mem_u32(&t->mem, addr + (uint64_t)t->py->co_firstlineno, &first));
    table = pb_py_bytes(r, table_at, 1 << 20, &len);
    assert_non_null(table);
    while (*pairs == ' ' && pairs[1] >= '0') {
        uint32_t offset = (uint32_t)strtoul(pairs, &pairs, 10);
        int line = (int)strtol(pairs, &pairs, 10);
        int found = pb_py_line(t->py->lines, table, len, (int)first, offset);

        if (found != line && wrong++ < 3)
            print_error("%d.%d: code from line %u, offset %u: expected %d, found %d\n", t->major,
                        t->minor, first, offset, line, found);
    }
    return wrong;
}

static void check_lines(struct live *t)
{
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_py_reader reader = {&t->mem, t->py, &arena, NULL};
    size_t cap = 4 << 20;
    char *line = malloc(cap);
    int wrong = 0, count = 0;

    while (fgets(line, (int)cap, t->out) && strcmp(line, "end\n") != 0) {
        char *pairs;
        uint64_t addr = strtoull(line, &pairs, 10);

        wrong += check_code(t, &reader, addr, pairs);
        count++;
    }
    assert_true(count > 200);
    assert_int_equal(wrong, 0);
    free(line);
    pb_arena_finish(&arena);
}

static void test_lines_are_python_s_own(void **state)
{
    (void)state;
    live_each(script, check_lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_python_s_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
