/*
 * expressions.h - numbers of steps and epochs by an expression of the user's.
 *
 * Owns: the compiled expressions (settings torch.step, torch.epoch).
 * Threads: GIL held, no exception pending.
 * Fails: an expression that fails, gives no integer or takes more than its part of torch.budget is
 * given up, and the status line says why.
 * Not here: what is done with the numbers (steps.c).
 */
#ifndef PB_AGENT_TORCH_STEPS_EXPRESSIONS_H
#define PB_AGENT_TORCH_STEPS_EXPRESSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"

struct pb_torch;
struct _object;

enum pb_torch_expression_id {
    PB_TORCH_EXPRESSION_STEP,
    PB_TORCH_EXPRESSION_EPOCH,
    PB_TORCH_EXPRESSIONS
};

struct pb_torch_expression {
    char text[PB_SETTING_VALUE_MAX]; /* the text that was compiled */
    struct _object *code;
    bool works;
    uint32_t slow; /* evaluations in a row that took too long */
};

struct pb_torch_expressions {
    struct pb_torch_expression list[PB_TORCH_EXPRESSIONS];
    char problem[96];    /* which expression does not work, and why */
    bool problem_is_new; /* the status line does not have it yet */
};

/* Evaluates one in __main__. False: there is none, or it does not work. */
bool pb_torch_expression_value(struct pb_torch *t, enum pb_torch_expression_id which,
                               int64_t *ret);
/* About once a second: compiles what the settings have changed. */
void pb_torch_expressions_poll(struct pb_torch *t);
void pb_torch_expressions_leave(struct pb_torch *t);

#endif
