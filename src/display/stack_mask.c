#include "host/text/secret.h"
#include "display/stack.h"

void pb_stack_mask(struct pb_snapshot *s, struct pb_arena *a)
{
    for (size_t t = 0; t < s->nthreads; t++)
        for (size_t f = 0; f < s->threads[t].nframes; f++) {
            struct pb_frame *frame = &s->threads[t].frames[f];

            const char *source = frame->source ? pb_secret_text(frame->source, a) : NULL;

            if (source != frame->source)
                frame->indentation = -1; /* its columns are others now */
            frame->source = source;
            for (size_t i = 0; i < frame->nlocals; i++)
                frame->locals[i].value =
                    pb_secret_local(frame->locals[i].name, frame->locals[i].value, a);
        }
}
