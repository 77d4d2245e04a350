/* Values of real processes: what repr() says in the target is what is read from outside. */
#include "stack/python/live.h"

static const char script[] = LIVE_PROLOGUE
    "import collections, enum, math\n"
    "keep = []\n"
    "def check(value, text=None):\n"
    "    keep.append(value)\n"
    "    text = repr(value) if text is None else text\n"
    "    out.write('%d %s\\n' % (id(value), text.replace('@', '0x%x' % id(value))))\n"

    "for value in [None, True, False, Ellipsis, NotImplemented]:\n"
    "    check(value)\n"
    "for e in [0, 1, 7, 15, 29, 30, 31, 59, 60, 61, 62, 63, 64, 89, 90, 91, 127, 300, 900]:\n"
    "    for d in [-1, 0, 1]:\n"
    "        check(2 ** e + d)\n"
    "        check(-(2 ** e) + d)\n"
    "check(10 ** 298)\n"
    "check(10 ** 400, str(10 ** 39) + '… (401 digits)')\n"
    "check(1 << 40000, '<int of about 40020 bits>')\n"
    "for value in [0.0, -0.0, 1.0, -1.5, 0.1, 1/3, 1e15, 1e16, 1e17, 123456789012345680.0, 1e22,\n"
    "              1e-4, 1e-5, 0.00012345, 5e-324, 1.7976931348623157e308, 2.0 ** 60, math.pi,\n"
    "              float('inf'), float('-inf'), float('nan'), 100.0, 12345.678,\n"
    "              9007199254740993.0]:\n"
    "    check(value)\n"
    "for value in [0j, 2j, -2j, 1+2j, 1.5-2.25j, complex(-0.0, 1), complex(0, -0.0), 1e20+1e-7j,\n"
    "              complex('nan'), complex(float('inf'), float('-inf'))]:\n"
    "    check(value)\n"

    "for value in ['', 'a', 'hello world', \"it's\", '\"', '\\'\"', 'a\\tb\\r\\nc\\\\',\n"
    "              '\\x00\\x1f\\x7f',\n"
    "              '\\xe9', '\\x80\\xa0\\xad\\xff', '\\u65e5\\u672c', '\\u200b\\u2028\\ufeff',\n"
    "              '\\ue000', '\\U0001f600!', '\\U0010ffff', '\\ud800', 'x' * 120,\n"
    "              '\\u20ac' * 119, '\\U0001f600' * 60]:\n"
    "    check(value)\n"
    "check('y' * 121, \"'\" + 'y' * 120 + \"…'\")\n"
    "check('z' * 100000, \"'\" + 'z' * 120 + \"…'\")\n"
    "check('\\xe9' * 500, \"'\" + '\\xe9' * 120 + \"…'\")\n"
    "for value in [b'', b'abc', b\"it's\", b'\\x00\\xff\\n\\\\', bytes(range(60)), bytearray(),\n"
    "              bytearray(b'xyz\\x80')]:\n"
    "    check(value)\n"
    "check(b'q' * 121, \"b'\" + 'q' * 120 + \"…'\")\n"
    "moved = bytearray(b'0123456789')\n"
    "del moved[:3]\n"
    "check(moved)\n"

    "for value in [[], [1], [1, 2, 3], (), (1,), (1, 'a'), [[1, [2]], (3,)], {}, {'a': 1},\n"
    "              {1: 'x', None: 2.5, (1, 2): [3]}, set(), {5}, frozenset(), frozenset([5]),\n"
    "              range(3), range(1, 10), range(10, 0, -2), range(2 ** 70),\n"
    "              slice(1, 2), slice(None, None, -1)]:\n"
    "    check(value)\n"
    "check(list(range(1000)), '[0, 1, 2, 3, 4, 5, 6, 7, … 992 more]')\n"
    "check(tuple(range(9)), '(0, 1, 2, 3, 4, 5, 6, 7, … 1 more)')\n"
    "check([[[[1]]]], '[[[[…]]]]')\n"
    "check([[[{1: 2}, (1,), {3}]]], '[[[{…}, (…), {…}]]]')\n"
    "loop = [1]\n"
    "loop.append(loop)\n"
    "check(loop)\n"
    "ring = {}\n"
    "ring['self'] = ring\n"
    "check(ring)\n"
    "if sys.version_info >= (3, 6):\n"
    "    holes = {'a': 1, 'b': 2, 'c': 3}\n"
    "    del holes['b']\n"
    "    check(holes)\n"
    "    many = dict((i, i) for i in range(300))\n"
    "    check(many, '{0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7, … 292 more}')\n"
    "    strs = dict(('k%d' % i, i) for i in range(70000))\n"
    "    check(strs, repr(dict(('k%d' % i, i) for i in range(8)))[:-1] + ', … 69992 more}')\n"
    "check(set(range(8)))\n"
    "fewer = set(range(8))\n"
    "fewer.discard(3)\n"
    "check(fewer)\n"

    "class MyInt(int): pass\n"
    "class MyStr(str): pass\n"
    "class MyFloat(float): pass\n"
    "class MyList(list): pass\n"
    "class MyDict(dict): pass\n"
    "class MySet(set): pass\n"
    "class MyTuple(tuple): pass\n"
    "check(MyInt(5), 'MyInt(5)')\n"
    "check(MyStr('\\xe9'), \"MyStr('\\xe9')\")\n"
    "check(MyFloat(0.5), 'MyFloat(0.5)')\n"
    "check(MyList([1]), 'MyList([1])')\n"
    "check(MyDict(a=1), \"MyDict({'a': 1})\")\n"
    "check(MySet([1]), 'MySet({1})')\n"
    "check(MyTuple([1]), 'MyTuple((1,))')\n"
    "check(collections.OrderedDict(a=1), \"OrderedDict({'a': 1})\")\n"
    "check(collections.defaultdict(int, a=1), \"defaultdict({'a': 1})\")\n"
    "check(collections.Counter('a'), \"Counter({'a': 1})\")\n"
    "Point = collections.namedtuple('Point', 'x y')\n"
    "check(Point(1, 'b'))\n"
    "class Color(enum.Enum):\n"
    "    RED = 1\n"
    "class Level(enum.IntEnum):\n"
    "    HIGH = 3\n"
    "check(Color.RED)\n"
    "check(Level.HIGH)\n"

    "class Plain:\n"
    "    def __init__(self):\n"
    "        self.a = 1\n"
    "        self.b = 'x'\n"
    "    def method(self): pass\n"
    "class Slots:\n"
    "    __slots__ = ('a',)\n"
    "class Outer:\n"
    "    class Inner: pass\n"
    "plain = Plain()\n"
    "check(plain, \"<__main__.Plain at @> {a=1, b='x'}\")\n"
    "extra = Plain()\n"
    "extra.c = [1]\n"
    "check(extra, \"<__main__.Plain at @> {a=1, b='x', c=[1]}\")\n"
    "if sys.version_info >= (3, 6):\n"
    "    gone = Plain()\n"
    "    del gone.a\n"
    "    check(gone, \"<__main__.Plain at @> {b='x'}\")\n"
    "seen = Plain()\n"
    "seen.__dict__\n"
    "check(seen, \"<__main__.Plain at @> {a=1, b='x'}\")\n"
    "check(seen.__dict__)\n"
    "replaced = Plain()\n"
    "replaced.__dict__ = {'z': 9}\n"
    "check(replaced, '<__main__.Plain at @> {z=9}')\n"
    "holder = Plain()\n"
    "holder.a = plain\n"
    "check(holder, \"<__main__.Plain at @> {a=<__main__.Plain at 0x%x>, b='x'}\" % id(plain))\n"
    "check([plain], \"[<__main__.Plain at 0x%x> {a=1, b='x'}]\" % id(plain))\n"
    "check(Slots(), '<__main__.Slots at @>')\n"
    "check(Outer.Inner(), '<__main__.Outer.Inner at @>')\n"
    "check(object(), '<object at @>')\n"
    "dynamic = MyInt(7)\n"
    "dynamic.tag = 1\n"
    "check(dynamic, 'MyInt(7)')\n"

    "def function(): pass\n"
    "check(function)\n"
    "check(lambda: 0)\n"
    "check(plain.method, '<bound method Plain.method of <__main__.Plain at 0x%x>>' % id(plain))\n"
    "check(len)\n"
    "append = keep.append\n"
    "check(append)\n"
    "for value in [int, type, object, ValueError, Plain, Outer.Inner, type(None)]:\n"
    "    check(value)\n"
    "check(os, \"<module 'os'>\")\n"
    "check(sys, \"<module 'sys'>\")\n"
    "generator = (i for i in [1])\n"
    "check(generator, None if sys.version_info >= (3, 5) else '<generator at @>')\n"
    "check(ValueError('bad', 1))\n"
    "check(ValueError('bad'), \"ValueError('bad')\")\n"
    "check(KeyError())\n"
    "class MyError(Exception): pass\n"
    "check(MyError(2), 'MyError(2)')\n"
    "def outer():\n"
    "    captured = 5\n"
    "    return lambda: captured\n"
    "check(outer().__closure__[0], '<cell: 5>')\n"

    "try:\n"
    "    import numpy\n"
    "except ImportError:\n"
    "    numpy = None\n"
    "if numpy:\n"
    "    check(numpy.zeros((2, 3))[:, 1:], '<numpy.ndarray shape=(2, 2) dtype=float64 at @>')\n"
    "    check(numpy.zeros((2, 300)), '<numpy.ndarray shape=(2, 300) dtype=float64 at @>')\n"
    "    check(numpy.arange(5, dtype='int32'),\n"
    "          '<numpy.ndarray shape=(5,) dtype=int32 [0, 1, 2, 3, 4] at @>')\n"
    "    check(numpy.array(1.5, dtype='f4'), '<numpy.ndarray shape=() dtype=float32 [1.5] at @>')\n"
    "    check(numpy.float64(0.1), 'numpy.float64(0.1)')\n"
    "    check(numpy.float32(0.1), 'numpy.float32(0.1)')\n"
    "    check(numpy.float32(16777217), 'numpy.float32(16777216.0)')\n"
    "    check(numpy.int64(-3), 'numpy.int64(-3)')\n"
    "    check(numpy.uint8(200), 'numpy.uint8(200)')\n"
    "    check(numpy.str_('a'), \"str_('a')\")\n" LIVE_EPILOGUE;

static void check_values(struct live *t)
{
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_py_reader reader = {&t->mem, t->py, &arena, NULL};
    struct pb_py_limits limits = pb_py_limits_default;
    struct pb_buf text = PB_BUF_INIT;
    char line[16384];
    int wrong = 0, count = 0;

    limits.total = 2000;
    while (fgets(line, sizeof line, t->out) && strcmp(line, "end\n") != 0) {
        char *expected;
        uint64_t addr = strtoull(line, &expected, 10);

        expected += *expected == ' ';
        expected[strcspn(expected, "\n")] = '\0';
        pb_buf_clear(&text);
        pb_py_value(&reader, addr, &limits, &text);
        count++;
        if (strcmp(text.data, expected) != 0 && wrong++ < 10)
            print_error("%d.%d: expected %s\n      found    %s\n", t->major, t->minor, expected,
                        text.data);
    }
    assert_true(count > 200);
    assert_int_equal(wrong, 0);
    pb_buf_finish(&text);
    pb_arena_finish(&arena);
}

static void test_values_are_shown_as_repr(void **state)
{
    (void)state;
    live_each(script, check_values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_are_shown_as_repr),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
