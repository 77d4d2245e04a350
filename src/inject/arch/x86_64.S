/*
 * x86_64: the code that is put into a target.
 *
 * Position independent and free of data: the same bytes serve any number of
 * injections at once, so they are never changed once they are written.
 *
 * stub    runs on the victim. On entry rsp points to the head of the block,
 *         rbx to the frame of saved registers; both lie on the victim's own
 *         stack, below the 128 bytes that it may use. All other registers are
 *         free, the vector registers are still the victim's.
 * thread  runs on the new thread; rdi points to the block.
 */
#include "inject/block.h"

#define SYS_close 3
#define SYS_mmap 9
#define SYS_munmap 11
#define SYS_rt_sigaction 13
#define SYS_rt_sigprocmask 14
#define SYS_nanosleep 35
#define SYS_rt_sigpending 127
#define SYS_memfd_create 319

#define EINTR 4
#define EINVAL 22
#define SIG_BLOCK 0
#define SIG_SETMASK 2
#define PROT_READ_WRITE 3
#define MAP_FLAGS 0x100022 /* PRIVATE, ANONYMOUS, FIXED_NOREPLACE */
#define SA_RESTART_BIT 28
#define RED_ZONE 128

/* The frame of saved registers: signal mask, r15 … rax, flags, rip. */
#define FRAME_RAX 120
#define FRAME_RIP 136

/* Scratch of the stub below its stack pointer. */
#define ATTR 0   /* pthread_attr_t, 56 bytes */
#define TID 56   /* pthread_t */
#define SET 64   /* a signal set */
#define ACTION 72 /* the kernel's struct sigaction, 32 bytes */
#define SCRATCH 112

    .section .rodata.pb_code, "a", @progbits
    .globl pb_code_start, pb_code_end
    .hidden pb_code_start, pb_code_end
    .balign 16
pb_code_start:

stub:
    cld
    /* The tool has blocked signals already, unless it was killed just before. */
    mov $SYS_rt_sigprocmask, %eax
    mov $SIG_BLOCK, %edi
    lea PB_B_BLOCKED(%rsp), %rsi
    xor %edx, %edx
    mov $8, %r10d
    syscall

    xor %r12d, %r12d
    mov $SYS_mmap, %eax
    mov PB_B_ARENA(%rsp), %rdi
    mov PB_B_SIZE(%rsp), %rsi
    mov $PROT_READ_WRITE, %edx
    mov $MAP_FLAGS, %r10d
    mov $-1, %r8
    xor %r9d, %r9d
    syscall
    mov %rsp, %r13
    cmp %rdi, %rax
    je mapped
    cmp $-4096, %rax
    ja leave
    /* A kernel before 4.17 takes the address as a wish. */
    mov %rax, %rdi
    mov $SYS_munmap, %eax
    syscall
    jmp leave

mapped:
    mov %rax, %r12
    mov %r13, %rsi
    mov %rax, %rdi
    mov $(PB_B_HEAD / 8), %ecx
    rep movsq
    /* The vector registers: everything that this processor has switched on. */
    mov PB_B_SAVE(%r12), %rcx
    mov $-1, %eax
    mov $-1, %edx
    xsave64 (%r12, %rcx)
    mov %r12, %rsp
    add PB_B_SIZE(%r12), %rsp
    sub $SCRATCH, %rsp
    movl $PB_ST_STUB, PB_B_STATE(%r12)

    call *PB_B_ERRNO(%r12)
    mov %rax, %r14
    mov (%rax), %r15d
create:
    lea ATTR(%rsp), %rdi
    call *PB_B_ATTR_INIT(%r12)
    lea ATTR(%rsp), %rdi
    mov PB_B_STACK(%r12), %rsi
    call *PB_B_ATTR_STACK(%r12)
    lea ATTR(%rsp), %rdi
    mov $1, %esi
    call *PB_B_ATTR_DETACH(%r12)
    lea TID(%rsp), %rdi
    lea ATTR(%rsp), %rsi
    lea thread(%rip), %rdx
    mov %r12, %rcx
    call *PB_B_CREATE(%r12)
    test %eax, %eax
    jz created
    cmp $EINVAL, %eax
    jne refused
    /* Thread-local data of many libraries may not fit into a small stack. */
    shlq $2, PB_B_STACK(%r12)
    cmpq $PB_STACK_MAX, PB_B_STACK(%r12)
    jbe create
refused:
    mov %eax, PB_B_ERROR(%r12)
    movl $PB_ST_NO_THREAD, PB_B_STATE(%r12)
created:
    mov %r15d, (%r14)
    add $SCRATCH, %rsp

leave:
    /*
     * A signal that came meanwhile would have ended the victim's system call
     * with EINTR. It runs when the mask is put back, too late to do so.
     */
    sub $SCRATCH, %rsp
    mov $SYS_rt_sigpending, %eax
    lea SET(%rsp), %rdi
    mov $8, %esi
    syscall
    mov (%rbx), %rdx
    not %rdx
    and SET(%rsp), %rdx
    mov PB_B_WAKE(%r13), %ebp
    test %ebp, %ebp
    jz restore
next_signal:
    bsf %rdx, %rdi
    jz restore
    btr %rdi, %rdx
    inc %edi
    mov %rdx, SET(%rsp)
    mov $SYS_rt_sigaction, %eax
    xor %esi, %esi
    lea ACTION(%rsp), %rdx
    mov $8, %r10d
    syscall
    mov SET(%rsp), %rdx
    cmpq $1, ACTION(%rsp)
    jbe next_signal
    cmp $PB_WAKE_ALWAYS, %ebp
    je interrupt
    btl $SA_RESTART_BIT, ACTION + 8(%rsp)
    jc next_signal
interrupt:
    movq $-EINTR, FRAME_RAX(%rbx)
    addq $2, FRAME_RIP(%rbx)

restore:
    test %r12, %r12
    jz 1f
    mov PB_B_SAVE(%r12), %rcx
    mov $-1, %eax
    mov $-1, %edx
    xrstor64 (%r12, %rcx)
1:
    mov %rbx, %rsp
    test %r12, %r12
    jz 1f
    movl $1, PB_B_LEFT(%r12)
1:
    /* From here on a signal may come: all that is needed lies above rsp. */
    mov $SYS_rt_sigprocmask, %eax
    mov $SIG_SETMASK, %edi
    mov %rsp, %rsi
    xor %edx, %edx
    mov $8, %r10d
    syscall
    lea 8(%rsp), %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbp
    pop %rbx
    pop %r11
    pop %r10
    pop %r9
    pop %r8
    pop %rdi
    pop %rsi
    pop %rdx
    pop %rcx
    pop %rax
    popfq
    ret $RED_ZONE

thread:
    push %rbx
    push %rbp
    push %r12
    mov %rdi, %rbx
    movl $PB_ST_THREAD, PB_B_STATE(%rbx)
    cmpq $0, PB_B_ENTRY(%rbx)
    jne ready
    mov $SYS_memfd_create, %eax
    lea PB_B_NAME(%rbx), %rdi
    mov $1, %esi
    syscall
    mov %eax, PB_B_FD(%rbx)
    test %eax, %eax
    js no_file
ready:
    movl $PB_ST_READY, PB_B_STATE(%rbx)
    mov $PB_NAPS, %ebp
1:
    cmpl $0, PB_B_GO(%rbx)
    jne load
    call nap
    dec %ebp
    jnz 1b
    movl $PB_ST_GAVE_UP, PB_B_STATE(%rbx)
    movl $1, PB_B_ACK(%rbx)
    jmp finish
load:
    cmpq $0, PB_B_ENTRY(%rbx)
    jne enter
    lea PB_B_PATH(%rbx), %rdi
    mov PB_B_DLMODE(%rbx), %esi
    call *PB_B_DLOPEN(%rbx)
    test %rax, %rax
    jz no_library
    mov %rax, %rdi
    lea PB_B_SYMBOL(%rbx), %rsi
    call *PB_B_DLSYM(%rbx)
    test %rax, %rax
    jz no_library
    mov %rax, PB_B_ENTRY(%rbx)
enter:
    lea PB_B_OPTIONS(%rbx), %rdi
    call *PB_B_ENTRY(%rbx)
    mov %eax, PB_B_RESULT(%rbx)
    movl $PB_ST_DONE, PB_B_STATE(%rbx)
    jmp finish
no_file:
    mov %eax, PB_B_ERROR(%rbx)
    movl $PB_ST_NO_FILE, PB_B_STATE(%rbx)
    jmp finish
no_library:
    mov PB_B_DLERROR(%rbx), %rax
    test %rax, %rax
    jz 2f
    call *%rax
    test %rax, %rax
    jz 2f
    xor %ecx, %ecx
1:
    mov (%rax, %rcx), %dl
    mov %dl, PB_B_WHY(%rbx, %rcx)
    test %dl, %dl
    jz 2f
    inc %ecx
    cmp $PB_WHY_MAX, %ecx
    jb 1b
2:
    movl $PB_ST_NO_LIBRARY, PB_B_STATE(%rbx)

finish:
    mov PB_B_FD(%rbx), %edi
    test %edi, %edi
    js 1f
    mov $SYS_close, %eax
    syscall
1:
    mov $PB_NAPS, %ebp
2:
    mov PB_B_LEFT(%rbx), %eax
    test PB_B_ACK(%rbx), %eax
    jnz 3f
    call nap
    dec %ebp
    jnz 2b
    /* Nobody asked for the result; a victim that is still inside needs the arena. */
    cmpl $0, PB_B_LEFT(%rbx)
    je 4f
3:
    mov PB_B_ARENA(%rbx), %rdi
    mov PB_B_SIZE(%rbx), %rsi
    mov $SYS_munmap, %eax
    syscall
4:
    pop %r12
    pop %rbp
    pop %rbx
    xor %eax, %eax
    ret

nap:
    mov $SYS_nanosleep, %eax
    lea PB_B_NAP(%rbx), %rdi
    xor %esi, %esi
    syscall
    ret

pb_code_end:

    .section .note.GNU-stack, "", @progbits
