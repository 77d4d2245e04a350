/*
 * aarch64: the code that is put into a target.
 *
 * Position independent and free of data: the same bytes serve any number of
 * injections at once, so they are never changed once they are written. The
 * `hint` instructions are landing pads (BTI), no-ops where these are unknown.
 *
 * stub    runs on the victim. On entry sp points to the head of the block,
 *         x19 to the frame of saved registers; both lie on the victim's own
 *         stack, below its stack pointer (there is no red zone here). All
 *         other registers are free, the vector registers still the victim's.
 * thread  runs on the new thread; x0 points to the block.
 */
#include "inject/block.h"

#define SYS_close 57
#define SYS_nanosleep 101
#define SYS_rt_sigprocmask 135
#define SYS_munmap 215
#define SYS_mmap 222
#define SYS_memfd_create 279

#define EINVAL 22
#define SIG_BLOCK 0
#define SIG_SETMASK 2
#define PROT_READ_WRITE 3

/* The frame of saved registers: x0 … x30, then these. */
#define FRAME_NZCV 248
#define FRAME_MASK 256
#define FRAME_BACK 264

/* Scratch of the stub: pthread_attr_t (64 bytes), pthread_t. */
#define TID 64
#define SCRATCH 80

#define BTI_C hint #34
#define BTI_JC hint #38

    .section .rodata.pb_code, "a", %progbits
    .globl pb_code_start, pb_code_end
    .hidden pb_code_start, pb_code_end
    .balign 16
pb_code_start:

stub:
    BTI_JC
    /* The tool has blocked signals already, unless it was killed just before. */
    mov x0, #SIG_BLOCK
    add x1, sp, #PB_B_BLOCKED
    mov x2, xzr
    mov x3, #8
    mov x8, #SYS_rt_sigprocmask
    svc #0

    mov x20, xzr
    mov x21, sp
    ldr x0, [x21, #PB_B_ARENA]
    ldr x1, [x21, #PB_B_SIZE]
    mov x2, #PROT_READ_WRITE
    mov w3, #0x22 /* PRIVATE, ANONYMOUS */
    movk w3, #0x10, lsl #16 /* FIXED_NOREPLACE */
    mov x4, #-1
    mov x5, xzr
    mov x8, #SYS_mmap
    svc #0
    ldr x1, [x21, #PB_B_ARENA]
    cmp x0, x1
    b.eq mapped
    cmn x0, #4095
    b.hs leave
    /* A kernel before 4.17 takes the address as a wish. */
    ldr x1, [x21, #PB_B_SIZE]
    mov x8, #SYS_munmap
    svc #0
    b leave

mapped:
    mov x20, x0
    mov x2, xzr
1:
    ldr x3, [x21, x2]
    str x3, [x20, x2]
    add x2, x2, #8
    cmp x2, #PB_B_HEAD
    b.lo 1b
    ldr x9, [x20, #PB_B_SAVE]
    add x9, x9, x20
    stp q0, q1, [x9], #32
    stp q2, q3, [x9], #32
    stp q4, q5, [x9], #32
    stp q6, q7, [x9], #32
    stp q8, q9, [x9], #32
    stp q10, q11, [x9], #32
    stp q12, q13, [x9], #32
    stp q14, q15, [x9], #32
    stp q16, q17, [x9], #32
    stp q18, q19, [x9], #32
    stp q20, q21, [x9], #32
    stp q22, q23, [x9], #32
    stp q24, q25, [x9], #32
    stp q26, q27, [x9], #32
    stp q28, q29, [x9], #32
    stp q30, q31, [x9], #32
    mrs x10, fpsr
    mrs x11, fpcr
    stp x10, x11, [x9]
    ldr x10, [x20, #PB_B_SIZE]
    add x10, x10, x20
    sub x10, x10, #SCRATCH
    mov sp, x10
    mov x29, xzr
    mov w1, #PB_ST_STUB
    str w1, [x20, #PB_B_STATE]

    ldr x9, [x20, #PB_B_ERRNO]
    blr x9
    mov x22, x0
    ldr w23, [x0]
create:
    mov x0, sp
    ldr x9, [x20, #PB_B_ATTR_INIT]
    blr x9
    mov x0, sp
    ldr x1, [x20, #PB_B_STACK]
    ldr x9, [x20, #PB_B_ATTR_STACK]
    blr x9
    mov x0, sp
    mov w1, #1
    ldr x9, [x20, #PB_B_ATTR_DETACH]
    blr x9
    add x0, sp, #TID
    mov x1, sp
    adr x2, thread
    mov x3, x20
    ldr x9, [x20, #PB_B_CREATE]
    blr x9
    cbz w0, created
    cmp w0, #EINVAL
    b.ne refused
    /* Thread-local data of many libraries may not fit into a small stack. */
    ldr x1, [x20, #PB_B_STACK]
    lsl x1, x1, #2
    str x1, [x20, #PB_B_STACK]
    mov x2, #PB_STACK_MAX
    cmp x1, x2
    b.ls create
refused:
    str w0, [x20, #PB_B_ERROR]
    mov w1, #PB_ST_NO_THREAD
    str w1, [x20, #PB_B_STATE]
created:
    str w23, [x22]

leave:
    cbz x20, 1f
    ldr x9, [x20, #PB_B_SAVE]
    add x9, x9, x20
    ldp q0, q1, [x9], #32
    ldp q2, q3, [x9], #32
    ldp q4, q5, [x9], #32
    ldp q6, q7, [x9], #32
    ldp q8, q9, [x9], #32
    ldp q10, q11, [x9], #32
    ldp q12, q13, [x9], #32
    ldp q14, q15, [x9], #32
    ldp q16, q17, [x9], #32
    ldp q18, q19, [x9], #32
    ldp q20, q21, [x9], #32
    ldp q22, q23, [x9], #32
    ldp q24, q25, [x9], #32
    ldp q26, q27, [x9], #32
    ldp q28, q29, [x9], #32
    ldp q30, q31, [x9], #32
    ldp x10, x11, [x9]
    msr fpsr, x10
    msr fpcr, x11
1:
    mov sp, x19
    cbz x20, 1f
    mov w1, #1
    add x2, x20, #PB_B_LEFT
    stlr w1, [x2]
1:
    /* From here on a signal may come: all that is needed lies above sp. */
    mov x0, #SIG_SETMASK
    add x1, sp, #FRAME_MASK
    mov x2, xzr
    mov x3, #8
    mov x8, #SYS_rt_sigprocmask
    svc #0
    ldr x0, [sp, #FRAME_NZCV]
    msr nzcv, x0
    ldp x2, x3, [sp, #16]
    ldp x4, x5, [sp, #32]
    ldp x6, x7, [sp, #48]
    ldp x8, x9, [sp, #64]
    ldp x10, x11, [sp, #80]
    ldp x12, x13, [sp, #96]
    ldp x14, x15, [sp, #112]
    ldp x16, x17, [sp, #128]
    ldp x18, x19, [sp, #144]
    ldp x20, x21, [sp, #160]
    ldp x22, x23, [sp, #176]
    ldp x24, x25, [sp, #192]
    ldp x26, x27, [sp, #208]
    ldp x28, x29, [sp, #224]
    ldr x30, [sp, #240]
    /* The way back (aarch64.c): x0 and x1, the stack pointer, and a direct branch. */
    ldr x0, [sp, #FRAME_BACK]
    br x0

thread:
    BTI_C
    stp x29, x30, [sp, #-32]!
    mov x29, sp
    stp x19, x20, [sp, #16]
    mov x19, x0
    mov w1, #PB_ST_THREAD
    str w1, [x19, #PB_B_STATE]
    ldr x1, [x19, #PB_B_ENTRY]
    cbnz x1, ready
    add x0, x19, #PB_B_NAME
    mov x1, #1
    mov x8, #SYS_memfd_create
    svc #0
    str w0, [x19, #PB_B_FD]
    tbnz w0, #31, no_file
ready:
    mov w1, #PB_ST_READY
    stlr w1, [x19] /* PB_B_STATE is 0 */
    mov w20, #PB_NAPS
1:
    add x2, x19, #PB_B_GO
    ldar w1, [x2]
    cbnz w1, load
    bl nap
    subs w20, w20, #1
    b.ne 1b
    mov w1, #1
    str w1, [x19, #PB_B_ACK]
    mov w1, #PB_ST_GAVE_UP
    b finish
load:
    ldr x9, [x19, #PB_B_ENTRY]
    cbnz x9, enter
    add x0, x19, #PB_B_PATH
    ldr w1, [x19, #PB_B_DLMODE]
    ldr x9, [x19, #PB_B_DLOPEN]
    blr x9
    cbz x0, no_library
    add x1, x19, #PB_B_SYMBOL
    ldr x9, [x19, #PB_B_DLSYM]
    blr x9
    cbz x0, no_library
    mov x9, x0
enter:
    add x0, x19, #PB_B_OPTIONS
    blr x9
    str w0, [x19, #PB_B_RESULT]
    mov w1, #PB_ST_DONE
    b finish
no_file:
    str w0, [x19, #PB_B_ERROR]
    mov w1, #PB_ST_NO_FILE
    b finish
no_library:
    ldr x9, [x19, #PB_B_DLERROR]
    cbz x9, 2f
    blr x9
    cbz x0, 2f
    add x2, x19, #PB_B_WHY
    mov x3, xzr
1:
    ldrb w4, [x0, x3]
    strb w4, [x2, x3]
    cbz w4, 2f
    add x3, x3, #1
    cmp x3, #PB_WHY_MAX
    b.lo 1b
2:
    mov w1, #PB_ST_NO_LIBRARY

finish:
    stlr w1, [x19]
    ldr w0, [x19, #PB_B_FD]
    tbnz w0, #31, 1f
    mov x8, #SYS_close
    svc #0
1:
    mov w20, #PB_NAPS
2:
    add x2, x19, #PB_B_LEFT
    ldar w1, [x2]
    add x2, x19, #PB_B_ACK
    ldar w2, [x2]
    tst w1, w2
    b.ne 3f
    bl nap
    subs w20, w20, #1
    b.ne 2b
    /* Nobody asked for the result; a victim that is still inside needs the arena. */
    cbz w1, 4f
3:
    ldr x0, [x19, #PB_B_ARENA]
    ldr x1, [x19, #PB_B_SIZE]
    mov x8, #SYS_munmap
    svc #0
4:
    ldp x19, x20, [sp, #16]
    ldp x29, x30, [sp], #32
    mov x0, xzr
    ret

nap:
    add x0, x19, #PB_B_NAP
    mov x1, xzr
    mov x8, #SYS_nanosleep
    svc #0
    ret

    .balign 16
pb_code_end:

    .section .note.GNU-stack, "", %progbits
