/*
 * cmd.h - what a command is, and what it gets to see when it runs.
 *
 * Owns: nothing; descriptors are const data, a context lives in main().
 * Threads: one.
 * Fails: a command returns 0, or -1 with ctx->err set; main() prints the error
 * as one line and turns its code into the exit code.
 * Not here: parsing (parse.h), colours and columns (print.h).
 *
 * A command is one file, src/cli/<name>.c, that opens with its descriptor
 * `const struct pb_cmd pb_cmd_<name>`, and one line in commands.def. Help,
 * completion and the manual page are made from the descriptors.
 */
#ifndef PB_CLI_CMD_H
#define PB_CLI_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "display/print.h"
#include "host/text/arena.h"

enum pb_opt_type {
    PB_OPT_FLAG, /* takes no value */
    PB_OPT_STR,
    PB_OPT_INT,    /* between min and max, when these differ */
    PB_OPT_NUM,    /* a number with a fraction, e.g. seconds; min and max as above */
    PB_OPT_CHOICE, /* one of the words in choices */
    PB_OPT_MANY,   /* may be given several times; the values come as lines */
};

struct pb_opt {
    const char *name; /* long name, without the dashes */
    char letter;      /* 0 when there is none */
    enum pb_opt_type type;
    const char *arg;     /* what the value is called in help; NULL for a flag */
    const char *choices; /* "text|json|csv" */
    double min, max;
    const char *help;
};

struct pb_positional {
    const char *name;
    const char *help;
    bool required;
    bool many;           /* takes all that follow; the last one only */
    const char *choices; /* "bash|zsh|fish", or NULL */
    bool verbatim;       /* from here on nothing is an option of ours: another command's line */
};

enum pb_target_need {
    PB_TARGET_UNUSED,   /* a target makes no sense here and is refused */
    PB_TARGET_PROCESS,  /* a process on this machine: ctx->pid is set */
    PB_TARGET_OPTIONAL, /* as above when one is given, else ctx->pid is 0 */
    PB_TARGET_SCOPE,    /* what a node knows: a process living or dead, or all; nodelink.h */
};

/* What a command does with a job (cli/target/job.h), which is several processes. */
enum pb_job_use {
    PB_JOB_REFUSED,  /* looks at one process */
    PB_JOB_EACH,     /* runs once for each; its answer names the process */
    PB_JOB_TITLED,   /* runs once for each, with a line about the process in front */
    PB_JOB_TOGETHER, /* PB_TARGET_SCOPE: one question about all */
};

struct pb_ctx;

enum { PB_CMD_LATELY_S = 600 };

struct pb_cmd {
    const char *name;
    const char *aliases; /* "ls, l", or NULL */
    const char *summary; /* one line, no full stop */
    const char *details; /* paragraphs for help and the manual, or NULL */
    const struct pb_opt *options;            /* ends with a NULL name; NULL for none */
    const struct pb_positional *positionals; /* ends with a NULL name; NULL for none */
    enum pb_target_need target;
    enum pb_job_use job;
    bool remote; /* a process at host:port will do as well: ctx->remote. PB_TARGET_SCOPE: always */
    bool direct; /* prints while it runs: what stands above its output goes out before */
    bool whole_cluster; /* asks about all ranks at once by itself, where there are several */
    bool one_apart; /* of whole_cluster: a single rank is asked for at its own node */
    bool stored; /* --store will do as well. PB_TARGET_SCOPE: always */
    bool lately; /* of a job also those that ended in the last minutes (PB_CMD_LATELY_S) */
    bool core;   /* --core will do as well: ctx->core, and no target */
    /* Of several processes: once, before it runs for each, which is for all of them at once. */
    int (*prepare)(struct pb_ctx *ctx);
    const char *examples; /* lines of "command  # what it does", or NULL */
    bool hidden;
    int (*run)(struct pb_ctx *ctx);
};

/* What was given for one option. */
struct pb_opt_value {
    bool set;
    const char *str;
    double num;
};

/* One process of a job. */
struct pb_ctx_process {
    pid_t pid;
    long rank; /* -1 when its environment does not tell */
    const char *command;
    const char *host, *remote, *scope; /* a rank on another machine: its node; else NULL */
};

struct pb_ctx {
    const struct pb_cmd *cmd;
    struct pb_opt_value *values; /* one for each of cmd->options */
    char **args;                 /* positionals behind the command, NULL at the end */
    int nargs;
    const char *target; /* as the user wrote it, or NULL */
    pid_t pid;          /* the process on this machine that it names, 0 for none */
    const char *remote; /* the node that it names, "host:port", or NULL for this machine's */
    const char *scope;  /* for a node: "1234", "1234-567", or NULL: what that node takes for it */
    bool cluster;             /* --cluster, or ranks as target: all nodes are meant */
    const char *ranks, *of_job; /* ranks of the cluster, "0-7", and their job's name; or NULL */
    struct pb_ctx_process *job; /* njob of them that the command runs for, one after the other */
    size_t njob;
    const struct pb_ctx_process *chosen; /* the one of them that it runs for now, or NULL */
    const char *agreed; /* what cmd->prepare found for all of them, or NULL */
    double agreed_s;    /* seconds until then */
    const char *token, *token_file; /* --token, --token-file: for a remote node */
    bool plain;                     /* --plain: without TLS */
    const char *store;              /* --store: a copied folder instead of a node */
    int64_t hours[2];               /* the part of a lake that is read; 0, 0: all */
    const char *core;               /* --core: a core file instead of a process */
    const char *exe;                /* --exe: file or folder with what it had mapped, or NULL */
    bool verbose;
    int exit_code;    /* exit status of a command that succeeds: 0, or what it has to say by it */
    bool partial;     /* some node of the cluster did not answer: main() says so likewise */
    bool interrupted; /* Ctrl-C ended it: main() says so by its exit code */
    const char *command_line; /* as typed, quoted for a shell: the hint after "sudo" */
    struct pb_print out;      /* stdout; flushed by main() when run() returns */
    struct pb_arena arena;    /* lives as long as the command */
    struct pb_err err;
    const char *note; /* lines to print under the error, or NULL */
};

/* Values by long name. An option that was not given is false, or the default passed in. */
bool pb_opt_flag(const struct pb_ctx *ctx, const char *name);
const char *pb_opt_str(const struct pb_ctx *ctx, const char *name, const char *default_value);
long pb_opt_int(const struct pb_ctx *ctx, const char *name, long default_value);
double pb_opt_num(const struct pb_ctx *ctx, const char *name, double default_value);

/* One line on stderr that is no error: "no Python processes". */
void pb_ctx_notice(const struct pb_ctx *ctx, const char *text);

/* All commands in the order of commands.def; ends with NULL. */
extern const struct pb_cmd *const pb_cmds[];
/* By name or alias; NULL when there is none. */
const struct pb_cmd *pb_cmd_find(const char *name);
/* Options that every command understands; ends with a NULL name. */
extern const struct pb_opt pb_opts_global[];
/* A global option as it works behind a command: without a letter that the command uses itself. */
struct pb_opt pb_opt_behind(const struct pb_cmd *cmd, const struct pb_opt *global);

#endif
