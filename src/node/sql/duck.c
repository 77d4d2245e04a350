#include "node/sql/duck.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/sql/engine.h"

static const char *const names[] = {
#define DUCK(name) "duckdb_" #name,
#include "node/sql/duck.def"
#undef DUCK
};

_Static_assert(sizeof(struct pb_duck) == sizeof names / sizeof *names * sizeof(void *),
               "one pointer a function");

/* Folder of this executable, without a slash at the end. */
static int own_folder(char *buf, size_t cap)
{
    ssize_t n = readlink("/proc/self/exe", buf, cap - 1);
    char *slash;

    if (n <= 0)
        return -1;
    buf[n] = 0;
    slash = strrchr(buf, '/');
    if (!slash)
        return -1;
    *slash = 0;
    return 0;
}

static const char *const folders[] = {"", "/../lib/probing"};

bool pb_duck_find(char *buf, size_t cap)
{
    const char *named = getenv("PROBING_ENGINE");
    char folder[PATH_MAX];

    if (named && *named)
        return snprintf(buf, cap, "%s", named) < (int)cap && access(buf, R_OK) == 0;
    if (own_folder(folder, sizeof folder) < 0)
        return false;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (snprintf(buf, cap, "%s%s/" PB_DUCK_FILE, folder, folders[i]) < (int)cap &&
            access(buf, R_OK) == 0)
            return true;
    return false;
}

static void *open_library(struct pb_err *err)
{
    const char *named = getenv("PROBING_ENGINE");
    char folder[PATH_MAX], path[PATH_MAX + 64];
    void *library;

    if (named && *named) {
        library = dlopen(named, RTLD_LAZY | RTLD_LOCAL);
        if (!library)
            pb_err_set(err, PB_FAIL, PB_SQL_MISSING "$PROBING_ENGINE: %s", dlerror());
        return library;
    }
    if (own_folder(folder, sizeof folder) < 0)
        snprintf(folder, sizeof folder, ".");
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s%s/" PB_DUCK_FILE, folder, folders[i]);
        if (access(path, R_OK) < 0)
            continue;
        library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
        if (!library)
            pb_err_set(err, PB_FAIL, PB_SQL_MISSING "%s", dlerror());
        return library;
    }
    library = dlopen(PB_DUCK_FILE, RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        pb_err_set(err, PB_FAIL,
                   PB_SQL_MISSING "no " PB_DUCK_FILE " in %s, in %s/../lib/probing or where "
                   "the loader looks; put DuckDB %s there or name it in PROBING_ENGINE",
                   folder, folder, PB_DUCK_VERSION);
    return library;
}

/*
 * Vector::Dictionary(size, selection, count) of the engine's own C++: the C API makes a dictionary
 * vector without its size, and the engine then hashes and compares a text for each row where one
 * for each name would do. Optional: this very version has it, and a library that was made otherwise
 * does not know the name.
 */
#define DICTIONARY "_ZN6duckdb6Vector10DictionaryEmRKNS_15SelectionVectorEm"
typedef void duck_dictionary_fn(duckdb_vector, uint64_t size, duckdb_selection_vector, uint64_t n);

/*
 * The engine's allocator keeps the addresses of memory that it gave back, and the system counts
 * those against the limit for this process: a few large queries, and nothing could be had any more.
 * Optional as well.
 */
static void give_addresses_back(void *library)
{
    bool *retain = dlsym(library, "duckdb_je_opt_retain");

    if (retain)
        *retain = false;
}

/* The named exception to "no globals": the addresses that a linker would have filled in. */
static struct pb_duck functions;
static duck_dictionary_fn *dictionary;

const struct pb_duck *pb_duck(void)
{
    return &functions;
}

void pb_duck_dictionary(duckdb_vector v, uint64_t size, duckdb_selection_vector selection,
                        uint64_t n)
{
    if (dictionary)
        dictionary(v, size, selection, n);
    else
        functions.slice_vector(v, selection, n);
}

int pb_duck_load(struct pb_err *err)
{
    struct pb_duck found;
    void **slots = (void **)&found;
    void *library;
    const char *version;

    if (functions.library_version)
        return 0;
    library = open_library(err);
    if (!library)
        return -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        slots[i] = dlsym(library, names[i]);
        if (!slots[i])
            return pb_err_set(err, PB_FAIL, PB_SQL_MISSING PB_DUCK_FILE " has no %s: not DuckDB %s",
                              names[i], PB_DUCK_VERSION);
    }
    version = found.library_version();
    if (strcmp(version, "v" PB_DUCK_VERSION) != 0)
        return pb_err_set(err, PB_FAIL, PB_SQL_MISSING "DuckDB %s found, v%s wanted", version,
                          PB_DUCK_VERSION);
    *(void **)&dictionary = dlsym(library, DICTIONARY);
    give_addresses_back(library);
    functions = found;
    return 0;
}
