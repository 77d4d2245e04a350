/* Any bytes as _Py_DebugOffsets: refused, or a layout whose every offset is in bounds. */
#include "../unit/stack/python/offsets.h"
#include "cpython/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pb_py_layout l;
    struct pb_err err = {0};

    if (pb_py_layout_from_offsets(&l, data, size, &err) < 0) {
        if (err.code == PB_OK)
            __builtin_trap();
        return 0;
    }
    if (l.frame_size > 256 || l.co_size > 1024 || l.ob_head > 32 || l.str_ascii_size > 80 ||
        l.f_owner >= l.frame_size || l.co_linetable >= l.co_size)
        __builtin_trap();
    return 0;
}

size_t pb_fuzz_seed(int index, uint8_t *buf, size_t cap)
{
    if (cap < OFFSETS_314_SIZE)
        return 0;
    switch (index) {
    case 0:
        offsets_313_bytes(buf);
        return OFFSETS_313_SIZE;
    case 1:
        offsets_313t_bytes(buf);
        return OFFSETS_313_SIZE;
    case 2:
        offsets_314_bytes(buf);
        return OFFSETS_314_SIZE;
    case 3:
        offsets_314t_bytes(buf);
        return OFFSETS_314_SIZE;
    default:
        return 0;
    }
}
