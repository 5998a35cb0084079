#include "board.h"

enum { WRITE0 = 0x04, EXIT_EXTENDED = 0x20, APPLICATION_EXIT = 0x20026 };

extern uint32_t bss_start[], bss_end[], paint_end[], stack_top[];

#define FPU_ACCESS (*(volatile uint32_t *)0xE000ED88)
#define TIMER ((volatile uint32_t *)0x40000000) /* control, value, reload */
static const uint32_t UNTOUCHED = 0x5AFE57AC;

void *memcpy(void *to, const void *from, size_t count);
void *memset(void *to, int byte, size_t count);
void reset(void);

/* The compiler may call these two even where there is no C library. */
void *memcpy(void *to, const void *from, size_t count) {
    for (size_t i = 0; i < count; i++)
        ((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    return to;
}

void *memset(void *to, int byte, size_t count) {
    for (size_t i = 0; i < count; i++)
        ((uint8_t *)to)[i] = (uint8_t)byte;
    return to;
}

static void semihost(uint32_t operation, const void *argument) {
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

void board_print(const char *text) { semihost(WRITE0, text); }

void board_print_hex(const char *name, const uint8_t *bytes, size_t count) {
    static const char DIGITS[] = "0123456789abcdef";
    char pair[3] = {0};
    board_print(name);
    board_print(" ");
    for (size_t i = 0; i < count; i++) {
        pair[0] = DIGITS[bytes[i] >> 4];
        pair[1] = DIGITS[bytes[i] & 15];
        board_print(pair);
    }
    board_print("\n");
}

void board_print_number(const char *name, uint32_t number) {
    char text[11], *place = text + 10;
    *place = 0;
    do {
        *--place = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    board_print(name);
    board_print(" ");
    board_print(place);
    board_print("\n");
}

uint32_t board_ticks(void) { return UINT32_MAX - TIMER[1]; }

uint32_t board_stack_bytes(void) {
    const uint32_t *place = bss_end;
    while (*place == UNTOUCHED)
        place++;
    return (uint32_t)((uintptr_t)stack_top - (uintptr_t)place);
}

_Noreturn void board_exit(int code) {
    const uint32_t block[2] = {APPLICATION_EXIT, (uint32_t)code};
    for (;;)
        semihost(EXIT_EXTENDED, block);
}

void reset(void) {
    FPU_ACCESS |= 0xFu << 20;
    for (uint32_t *place = bss_start; place < bss_end; place++)
        *place = 0;
    for (uint32_t *place = bss_end; place < paint_end; place++) /* but for what this function itself needs */
        *place = UNTOUCHED;
    TIMER[2] = TIMER[1] = UINT32_MAX;
    TIMER[0] = 1;
    board_exit(main());
}

static void fault(void) {
    board_print("fault\n");
    board_exit(3);
}

__attribute__((section(".vectors"), used)) static const uintptr_t VECTORS[] = {
    (uintptr_t)stack_top, (uintptr_t)reset, (uintptr_t)fault, (uintptr_t)fault,
    (uintptr_t)fault,     (uintptr_t)fault, (uintptr_t)fault,
};
