// Streams and events: when work runs. A stream is a queue. Nothing in it runs until something forces it: a
// synchronisation, a copy that must return with its data, a question (which lets one piece run, so that polling ends),
// or a queue grown too long. A wait runs the other stream exactly as far as the event demands and no further, so a wait
// that is missing shows as wrong data. With PLIMSOLL_SIM_ORDER=first the other streams instead run ahead of the forced
// one as far as their own waits let them: the other half of the same mistakes.
//
// The null stream is ordered against every stream made without CU_STREAM_NON_BLOCKING, both ways.
#include "sim.h"
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <set>
#include <unordered_set>

namespace sim {

static constexpr size_t LONGEST_QUEUE = 8192;
static std::unordered_set<Stream *> &known() { static auto *s = new std::unordered_set<Stream *>; return *s; }

struct Tick { double at_ms = -1; };
struct Event {
    bool timed = true, sleeps = false;
    Stream *on = nullptr;
    uint64_t upto = 0;
    int device = 0;
    unsigned age = 0;                // of its context
    std::shared_ptr<Tick> tick;
};
// A host that waits spins, but for an event that was made with CU_EVENT_BLOCKING_SYNC: the schedule of a context that is the
// default spins where there are processors enough.
static void spins() {
    if (tracing()) complain("the host spins");
}
static std::unordered_set<Event *> &events() { static auto *s = new std::unordered_set<Event *>; return *s; }
static Event *event_of(void *handle) {
    auto *e = static_cast<Event *>(handle);
    if (!events().count(e)) return nullptr;
    if (e->age != devices()[e->device].age) stale("an event");
    return e;
}

static Stream *make_stream(int dev, bool blocking) {
    static int ids = 0;
    auto *s = new Stream;
    s->device = dev;
    s->blocking = blocking;
    s->id = ++ids;
    s->age = devices()[dev].age;
    devices()[dev].streams.push_back(s);
    known().insert(s);
    return s;
}

// Handles 0 and 1 are the null stream, 2 this thread's own.
Stream *stream_of(void *handle) {
    auto n = reinterpret_cast<uintptr_t>(handle);
    if (n <= 1) return current() ? current()->null_stream : nullptr;
    if (n == 2) {
        static thread_local std::map<int, Stream *> own;
        Stream *&s = own[current_index()];
        if (!s || s->age != devices()[s->device].age) s = make_stream(current_index(), true);
        return s;
    }
    auto *s = static_cast<Stream *>(handle);
    if (!known().count(s)) return nullptr;
    if (s->age != devices()[s->device].age) stale("a stream");
    return s->destroyed ? nullptr : s;
}

static void push(Stream *s, Op op) {
    s->enqueued++;
    s->queue.push_back(std::move(op));
}

void enqueue_wait(Stream *s, Stream *on, uint64_t upto) {
    if (on == s || on->executed >= upto) return;
    Op op;
    op.on = on;
    op.upto = upto;
    push(s, std::move(op));
}

void enqueue(Stream *s, const char *name, std::function<Status()> run) {
    if (captured(s, name, run, false)) return;
    Device &d = devices()[s->device];
    if (s == d.null_stream) {
        for (Stream *t : d.streams)
            if (t->blocking) enqueue_wait(s, t, t->enqueued);
    } else if (s->blocking) {
        enqueue_wait(s, d.null_stream, d.null_stream->enqueued);
    }
    Op op;
    op.run = std::move(run);
    op.name = name;
    push(s, std::move(op));
    if (s->queue.size() > LONGEST_QUEUE) run_to(s, s->enqueued);
}

Status enqueue_kernel(Stream *s, const char *name, std::function<Status()> run) {
    if (captured(s, name, run, true)) return OK;
    if (Status fault = injected_fault()) run = [fault] { return fault; };
    enqueue(s, name, std::move(run));
    static bool blocking = env("CUDA_LAUNCH_BLOCKING", 0) != 0;
    return blocking ? finish(s) : OK;
}

static void run_one(Stream *s) {
    Op op = std::move(s->queue.front());
    s->queue.pop_front();
    Device &d = devices()[s->device];
    if (!op.run) {
        run_to(op.on, op.upto);
    } else if (!d.fault) {
        if (tracing()) complain("stream %d, piece %llu: %s", s->id, (unsigned long long)s->executed + 1, op.name);
        if (Status why = op.run()) failed(d, why);
    }
    s->executed++;
}

void run_to(Stream *s, uint64_t upto) {
    while (s->executed < upto && !s->queue.empty()) run_one(s);
}

// Every other stream as far as it can go without this one having moved.
static void let_others_ahead(Stream *s) {
    static bool ahead = getenv("PLIMSOLL_SIM_ORDER") && !strcmp(getenv("PLIMSOLL_SIM_ORDER"), "first");
    if (!ahead) return;
    Device &d = devices()[s->device];
    for (size_t i = 0; i < d.streams.size(); i++) {
        Stream *t = d.streams[i];
        while (t != s && !t->queue.empty()) {
            const Op &op = t->queue.front();
            if (!op.run && op.on->executed < op.upto) break;
            run_one(t);
        }
    }
}

static Status force(Stream *s, uint64_t upto) {
    Device &d = devices()[s->device];
    let_others_ahead(s);
    run_to(s, upto);
    trim_after_sync(d);
    return d.fault;
}

Status finish(Stream *s) {
    Device &d = devices()[s->device];
    if (s == d.null_stream)
        for (size_t i = 0; i < d.streams.size(); i++)
            if (d.streams[i]->blocking) run_to(d.streams[i], d.streams[i]->enqueued);
    return force(s, s->enqueued);
}

Status finish_all(Device &d) {
    for (size_t i = 0; i < d.streams.size(); i++) run_to(d.streams[i], d.streams[i]->enqueued);
    trim_after_sync(d);
    return d.fault;
}

} // namespace sim
using namespace sim;

#define SIM_STREAM(s, handle)                                                                                          \
    Stream *s = stream_of(handle);                                                                                     \
    if (!s) return INVALID_HANDLE

API int cuStreamCreateWithPriority(void **stream, unsigned flags, int) {
    SIM_DEVICE(d);
    *stream = make_stream(current_index(), !(flags & 1));
    return OK;
}
API int cuStreamCreate(void **stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }
// Returns at once; what is queued still runs when something forces it.
API int cuStreamDestroy_v2(void *stream) {
    SIM_DEVICE(d);
    SIM_STREAM(s, stream);
    if (s == d->null_stream) return INVALID_HANDLE;
    s->destroyed = true;
    return OK;
}
API int cuStreamSynchronize(void *stream) {
    SIM_DEVICE(d);
    SIM_STREAM(s, stream);
    if (s->capture || s == d->null_stream) SIM_NOT_IN_CAPTURE(d);
    spins();
    return finish(s);
}
API int cuStreamQuery(void *stream) {
    SIM_DEVICE(d);
    SIM_STREAM(s, stream);
    if (s->capture || s == d->null_stream) SIM_NOT_IN_CAPTURE(d);
    if (s->executed == s->enqueued) return OK;
    run_to(s, s->executed + 1);
    return d->fault ? d->fault : NOT_READY;
}
API int cuStreamWaitEvent(void *stream, void *event, unsigned) {
    SIM_DEVICE(d);
    SIM_STREAM(s, stream);
    Event *e = event_of(event);
    if (!e) return INVALID_HANDLE;
    // An event of outside. One that was recorded in a capture is not modelled (cuEventRecord).
    if (s->capture && e->on) return invalidate(s, CAPTURE_ISOLATION);
    if (e->on) enqueue_wait(s, e->on, e->upto);
    return OK;
}
API int cuStreamGetCtx(void *stream, void **ctx) {
    SIM_DEVICE(d);
    SIM_STREAM(s, stream);
    *ctx = reinterpret_cast<void *>(uintptr_t(s->device) + 1);
    return OK;
}
API int cuThreadExchangeStreamCaptureMode(int *) { return OK; }
API int cuLaunchHostFunc(void *stream, void (*call)(void *), void *data) {
    SIM_DEVICE(d);
    SIM_STREAM(s, stream);
    enqueue(s, "host function", [=] { call(data); return OK; });
    return OK;
}

API int cuEventCreate(void **event, unsigned flags) {
    SIM_DEVICE(d);
    auto *e = new Event;
    e->timed = !(flags & 2);
    e->sleeps = flags & 1;
    e->device = current_index();
    e->age = d->age;
    events().insert(e);
    *event = e;
    return OK;
}
// It goes, and a lost context says that it is lost.
API int cuEventDestroy_v2(void *event) {
    Lock lock;
    Event *e = event_of(event);
    if (!e) return INVALID_HANDLE;
    Status fault = devices()[e->device].fault;
    events().erase(e);
    delete e;
    return fault;
}
API int cuEventRecord(void *event, void *stream) {
    SIM_DEVICE(d);
    SIM_STREAM(s, stream);
    Event *e = event_of(event);
    if (!e) return INVALID_HANDLE;
    // The driver captures it, and streams that wait for it join. That is not modelled.
    if (s->capture) return invalidate(s, NOT_SUPPORTED);
    auto tick = e->tick = std::make_shared<Tick>();
    enqueue(s, "event", [tick] {
        auto now = std::chrono::steady_clock::now().time_since_epoch();
        tick->at_ms = std::chrono::duration<double, std::milli>(now).count();
        return OK;
    });
    e->on = s;
    e->upto = s->enqueued;
    return OK;
}
API int cuEventRecordWithFlags(void *event, void *stream, unsigned) { return cuEventRecord(event, stream); }
API int cuEventQuery(void *event) {
    SIM_DEVICE(d);
    SIM_NOT_IN_CAPTURE(d);
    Event *e = event_of(event);
    if (!e) return INVALID_HANDLE;
    if (!e->on || e->on->executed >= e->upto) return OK;
    run_to(e->on, e->on->executed + 1);
    return d->fault ? d->fault : NOT_READY;
}
API int cuEventSynchronize(void *event) {
    SIM_DEVICE(d);
    SIM_NOT_IN_CAPTURE(d);
    Event *e = event_of(event);
    if (!e) return INVALID_HANDLE;
    if (!e->sleeps) spins();
    return e->on ? force(e->on, e->upto) : OK;
}
API int cuEventElapsedTime_v2(float *ms, void *start, void *end) {
    SIM_DEVICE(d);
    Event *a = event_of(start), *b = event_of(end);
    if (!a || !b || !a->timed || !b->timed || !a->on || !b->on) return INVALID_HANDLE;
    if (a->on->executed < a->upto || b->on->executed < b->upto) return NOT_READY;
    *ms = float(b->tick->at_ms - a->tick->at_ms);
    return OK;
}
API int cuEventElapsedTime(float *ms, void *start, void *end) { return cuEventElapsedTime_v2(ms, start, end); }
