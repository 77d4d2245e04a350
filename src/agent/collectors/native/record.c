#include "agent/collectors/native/record.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "agent/arch/symver.h"

void *pb_record_symbol(const char *mangled)
{
    void *library = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);

    return library ? dlsym(library, mangled) : NULL;
}

bool pb_record_find(struct pb_record *r)
{
    const struct {
        const char *name;
        void *to;
    } list[] = {
        {"_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE", &r->add},
        {"_ZN2at14removeCallbackEm", &r->remove},
        {"_ZNK2at14RecordFunction4nameEv", &r->name},
    };

    for (size_t i = 0; !r->searched && i < sizeof list / sizeof *list; i++) {
        void *function = pb_record_symbol(list[i].name);

        memcpy(list[i].to, &function, sizeof function);
    }
    r->searched = true;
    return r->add && r->remove && r->name;
}
