/* Any bytes as the memory of a Python: rendering ends, inside its limits. */
#include <stdlib.h>

#include "../unit/stack/python/image.h"
#include "../unit/stack/python/layouts.h"
#include "../unit/stack/python/offsets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

/* The first bytes: which layout, then the address of the object inside the image. */
#define HEAD 9
#define LAYOUTS 13

static const struct pb_py_layout *layout_at(unsigned index, struct pb_py_layout *buf)
{
    void (*const fills[])(uint8_t *) = {offsets_313_bytes, offsets_313t_bytes, offsets_314_bytes,
                                        offsets_314t_bytes};
    uint8_t bytes[PB_DEBUG_OFFSETS_MAX] = {0};

    if (index < 9)
        return kept_layout(3, 4 + (int)index, 9);
    fills[index - 9](bytes);
    return pb_py_layout_from_offsets(buf, bytes, sizeof bytes, NULL) == 0 ? buf : NULL;
}

static bool count_item(uint64_t key, uint64_t value, void *arg)
{
    size_t *n = arg;

    (void)key;
    (void)value;
    return ++*n > 1000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pb_py_layout buf;
    struct image img = {0};
    struct pb_arena arena = PB_ARENA_INIT;
    struct pb_buf out = PB_BUF_INIT;
    struct pb_py_reader r = {&img.mem, NULL, &arena, NULL};
    uint64_t addr;
    int64_t number;
    size_t n = 0;

    if (size < HEAD)
        return 0;
    memcpy(&addr, data + 1, sizeof addr);
    img.py = r.py = layout_at(data[0] % LAYOUTS, &buf);
    img.cap = size - HEAD;
    img.bytes = malloc(img.cap + 1);
    memcpy(img.bytes, data + HEAD, img.cap);
    img.mem.read = image_read;
    img.mem.arg = &img;
    pb_py_value(&r, addr, &pb_py_limits_default, &out);
    if (out.len == 0 || out.len > 8192)
        __builtin_trap();
    pb_py_str(&r, addr, 100);
    pb_py_bytes(&r, addr, 4096, &n);
    pb_py_int(&r, addr, &number);
    pb_py_dict_each(&r, addr, count_item, &n);
    pb_py_dict_get(&r, addr, "key");
    pb_py_instance_get(&r, addr, "key");
    free(img.bytes);
    pb_buf_finish(&out);
    pb_arena_finish(&arena);
    return 0;
}

size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    struct pb_py_layout layout;
    struct image img;
    uint64_t addr;

    if (index < 0 || index >= LAYOUTS || cap < HEAD + 16384)
        return 0;
    image_init(&img, layout_at((unsigned)index, &layout), buf + HEAD, 16384);
    addr = image_sample(&img);
    buf[0] = (uint8_t)index;
    memcpy(buf + 1, &addr, sizeof addr);
    return img.used < 16384 ? HEAD + img.used : 0;
}
