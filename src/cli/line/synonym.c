#include "cli/line/synonym.h"

#include <strings.h>

/* Other tools' words, and those that the descriptions of this one use. Commands are found first. */
static const struct {
    const char *word;
    bool ours; /* no part of a command line that somebody would look for by it */
    const char *nearest;
} meanings[] = {
    {"flame", false, "flamegraph"},
    {"sample", false, "flamegraph"},
    {"pprof", false, "flamegraph -f pprof, profile"},
    {"perf", false, "flamegraph -n, top"},
    {"trace", false, "profile, query 'SELECT * FROM python.torch_trace'"},
    {"stat", false, "query -w 2 'SELECT * FROM python.threads', memory"},
    {"nodes", false, "cluster nodes, serve --status"},
    {"diagnose", true,
     "query 'SELECT * FROM hung_collectives', query 'SELECT * FROM "
     "step_breakdown'"},
    {"hang", true, "backtrace -a, query 'SELECT * FROM hung_collectives'"},
    {"slow", true, "query 'SELECT * FROM step_breakdown', query 'SELECT * FROM slow_ranks'"},
    {"leak", true, "memory, query 'SELECT * FROM memory_growth'"},
    {"ui", false, "web"},
    {"dashboard", false, "web"},
    {"debug", true, "repl, backtrace -l, eval --frame N"},
    {"dap", false, "repl, backtrace -l, eval --frame N"},
    {"pdb", false, "repl, backtrace -l, eval --frame N"},
    {"shell", false, "repl"},
    {"console", false, "repl"},
    {"exec", false, "eval"},
    {"dump", false, "backtrace -a"},
    {"stack", false, "backtrace"},
    {"stacks", false, "backtrace -a"},
    {"threads", false, "backtrace -a, query 'SELECT * FROM python.threads'"},
    {"locals", false, "backtrace -l"},
    {"ps", false, "list"},
    {"processes", false, "list"},
    {"detach", false, "eject"},
    {"remove", false, "eject"},
    {"set", false, "config KEY=VALUE"},
    {"settings", false, "config"},
    {"sql", false, "query"},
    {"select", false, "query"},
    {"start", false, "launch, inject"},
    {"stop", false, "eject, serve --stop"},
    {"token", true, "serve --help"},
    {"gpu", false, "query 'SELECT * FROM gpu_metrics'"},
    {"logs", false, "query 'SELECT * FROM training_logs'"},
};

const char *pb_synonym_find(const char *word, bool ours)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (strcasecmp(meanings[i].word, word) == 0 && (meanings[i].ours || !ours))
            return meanings[i].nearest;
    return NULL;
}
