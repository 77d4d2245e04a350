/* Any memory as a heap: the look ends, and what it counts is bounded by what there is. */
#include "../unit/heap/heap_image.h"
#include "../unit/stack/python/layouts.h"
#include "../unit/stack/python/offsets.h"

#define VERSIONS 6

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

static const struct pb_py_layout *version(int index)
{
    static const int minors[] = {4, 6, 9, 11, 12};
    static struct pb_py_layout newest;
    uint8_t offsets[PB_DEBUG_OFFSETS_MAX] = {0};

    if (index < 5)
        return kept_layout(3, minors[index], 9);
    offsets_314_bytes(offsets);
    return pb_py_layout_from_offsets(&newest, offsets, sizeof offsets, NULL) == 0 ? &newest : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t bytes[HEAP_IMAGE];
    struct pb_heap_opts o = {.containers = 3, .type = "Node", .memory_max = 8 << 20};
    struct pb_arena a = PB_ARENA_INIT;
    struct pb_py_codes codes;
    struct heap_image h;
    struct pb_heap ret;
    size_t len;

    if (size < 2)
        return 0;
    heap_image_init(&h, version(data[0] % VERSIONS), bytes);
    len = size - 1 < HEAP_IMAGE ? size - 1 : HEAP_IMAGE;
    memcpy(bytes, data + 1, len);
    h.loc.interp_head = IMAGE_BASE + 4096;
    pb_py_codes_init(&codes, &h.img.mem, &h.py);
    h.view.codes = &codes;
    if (pb_heap_read_view(&h.view, &o, &a, &ret, NULL) == 0 &&
        (ret.ncontainers > 3 || ret.objects > 2 * HEAP_IMAGE / 8 || ret.skipped > HEAP_IMAGE))
        __builtin_trap();
    pb_py_codes_finish(&codes);
    pb_arena_finish(&a);
    return 0;
}

size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    struct heap_image h;

    if (index >= VERSIONS || cap < HEAP_IMAGE + 1)
        return 0;
    buf[0] = (uint8_t)index;
    heap_image_init(&h, version(index), buf + 1);
    return HEAP_IMAGE + 1;
}
