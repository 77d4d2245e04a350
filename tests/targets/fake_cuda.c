/*
 * As much of the CUDA driver, and of torch's library for it, as the agent asks for: streams are
 * numbers, and an event is over when the test says so. Built twice, under the name of each library.
 */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define EVENTS 4096
#define NOT_READY 600

struct event {
    void *stream;
    int recorded, over;
    float at;
};

/* One for each thread that the test has. */
static __thread void *context;
static uint64_t current;
static int capture;
static volatile int full;
static struct event *events[EVENTS];
static int nevents;

void fake_context(int on);
void fake_context(int on)
{
    context = on ? &current : NULL;
}

void fake_stream(uint64_t stream);
void fake_stream(uint64_t stream)
{
    current = stream;
}

void fake_capture(int on);
void fake_capture(int on)
{
    capture = on;
}

/* The GPU takes nothing more: who puts something on a stream waits. */
void fake_full(int on);
void fake_full(int on)
{
    full = on;
}

/* All that was put on a stream so far is over, at this time in ms. */
void fake_over(uint64_t stream, float at);
void fake_over(uint64_t stream, float at)
{
    for (int i = 0; i < nevents; i++)
        if (events[i]->recorded && !events[i]->over && (uint64_t)events[i]->stream == stream) {
            events[i]->over = 1;
            events[i]->at = at;
        }
}

int cuEventCreate(void **event, unsigned flags);
int cuEventCreate(void **event, unsigned flags)
{
    (void)flags;
    if (nevents == EVENTS || !(*event = events[nevents] = calloc(1, sizeof(struct event))))
        return 2;
    nevents++;
    return 0;
}

int cuEventRecord(void *event, void *stream);
int cuEventRecord(void *event, void *stream)
{
    while (full)
        usleep(1000);
    *(struct event *)event = (struct event){.stream = stream, .recorded = 1};
    return 0;
}

int cuEventQuery(const struct event *event);
int cuEventQuery(const struct event *event)
{
    return event->over ? 0 : NOT_READY;
}

int cuEventElapsedTime(float *ms, const struct event *from, const struct event *to);
int cuEventElapsedTime(float *ms, const struct event *from, const struct event *to)
{
    *ms = to->at - from->at;
    return from->over && to->over ? 0 : NOT_READY;
}

int cuCtxGetCurrent(void **ret);
int cuCtxGetCurrent(void **ret)
{
    *ret = context;
    return 0;
}

int cuStreamIsCapturing(void *stream, int *status);
int cuStreamIsCapturing(void *stream, int *status)
{
    (void)stream;
    *status = capture;
    return 0;
}

int cuThreadExchangeStreamCaptureMode(int *mode);
int cuThreadExchangeStreamCaptureMode(int *mode)
{
    *mode = *mode ? 0 : 2;
    return 0;
}

struct stream {
    uint64_t device, id;
};

/* c10::cuda::getCurrentCUDAStream and CUDAStream::stream. */
struct stream _ZN3c104cuda20getCurrentCUDAStreamEa(signed char device);
struct stream _ZN3c104cuda20getCurrentCUDAStreamEa(signed char device)
{
    (void)device;
    return (struct stream){0, current};
}

void *_ZNK3c104cuda10CUDAStream6streamEv(const struct stream *s);
void *_ZNK3c104cuda10CUDAStream6streamEv(const struct stream *s)
{
    return (void *)s->id;
}
