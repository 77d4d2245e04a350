/* The agent, as it is built, inside this executable. */
    .section .rodata, "a", %progbits
    .globl pb_payload_start, pb_payload_end
    .hidden pb_payload_start, pb_payload_end
    .balign 16
pb_payload_start:
    .incbin PB_PAYLOAD_PATH
pb_payload_end:

    .section .note.GNU-stack, "", %progbits
