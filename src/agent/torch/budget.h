/*
 * budget.h - the sampling budget: which step is traced by module next, so that the cost stays
 * within torch.budget.
 *
 * Owns: what tracing has cost so far.
 * Threads: GIL held.
 * Fails: never.
 * Not here: the budget of backward by module (grad_pass.c), which follows this choice.
 *
 * Traced are steps whose number the period divides, so that all ranks trace the same ones.
 */
#ifndef PB_AGENT_TORCH_BUDGET_H
#define PB_AGENT_TORCH_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct pb_torch;

struct pb_torch_budget {
    uint32_t period;      /* one step in so many is traced */
    uint32_t time_every;  /* one traced step in so many is timed on the GPU */
    double traced_share;  /* smoothed share of a traced step that is our own time */
    double base_share;    /* smoothed share of an untraced step that is our own time */
    double call_ns;       /* smoothed cost of a recorded call */
    double traced_ns;     /* smoothed cost of everything else in a traced step */
    double base_ns;       /* smoothed cost of a step that is not traced */
    double timed_ns;      /* cost of a step that is timed on the GPU */
    uint32_t rows;        /* rows of the last traced step */
    uint64_t spent_ns;    /* time of the program's threads spent in all */
    uint64_t report_ns;   /* when spent_ns is to be reported next */
    uint32_t reported_period; /* period that the status line has */
};

/* At the end of a step: counts its cost and chooses what is done in the next one. */
void pb_torch_budget_next_step(struct pb_torch *t, uint64_t took_ns);
/* Whether fewer steps are traced than the settings want. */
bool pb_torch_budget_limits(const struct pb_torch *t);
/* A recorded call has cost so much. */
void pb_torch_budget_add_call(struct pb_torch_budget *b, double ns);

#endif
