/*
 * A library whose sum() keeps its numbers in vector registers: the compiler
 * unrolls and vectorizes the loop. The result depends on every step.
 */
#define LANES 64

double sum(unsigned seed, long steps);

double sum(unsigned seed, long steps)
{
    float x[LANES], y[LANES], total = 0;

    for (int i = 0; i < LANES; i++) {
        x[i] = (float)(seed % 97 + i) / 128;
        y[i] = (float)(i + 1) / 64;
    }
    for (long n = 0; n < steps; n++) {
        for (int i = 0; i < LANES; i++) {
            x[i] = x[i] * 0.99f + y[i] * 0.01f;
            y[i] = y[i] * 1.0001f - x[i] * 0.0001f;
        }
    }
    for (int i = 0; i < LANES; i++)
        total = total * 0.5f + x[i] + y[i];
    return total;
}
