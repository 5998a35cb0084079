/* What the test needs of the board: text to the console of the host, a timer, and how deep the stack has been. */
#ifndef AMX_BOARD_H
#define AMX_BOARD_H

#include <stddef.h>
#include <stdint.h>

void board_print(const char *text);
void board_print_hex(const char *name, const uint8_t *bytes, size_t count);
void board_print_number(const char *name, uint32_t number);
uint32_t board_ticks(void); /* at 25 MHz, rising */
uint32_t board_stack_bytes(void);
_Noreturn void board_exit(int code);
int main(void);

#endif
