#include "launcher/look/waits/wait_frames.hpp"

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

Frame python(const char* function, const char* file) { return {function, file, 7, false}; }
Frame native(const char* function, const char* file) { return {function, file, 0, true}; }

struct FrameCase {
    WaitKind seen;
    std::vector<Frame> python;
    std::vector<Frame> native;
    WaitKind kind;
    const char* object;
};

const Frame kUsers = python("step", "/jobs/train.py");
const Frame kPoll = native("poll", "/lib/x86_64-linux-gnu/libc.so.6");

const FrameCase kFrames[] = {
    {WaitKind::lock,
     {python("all_reduce", "/v/torch/distributed/distributed_c10d.py"), kUsers},
     {},
     WaitKind::collective,
     "all_reduce"},
    {WaitKind::poll,
     {python("_store_based_barrier", "/v/torch/distributed/distributed_c10d.py")},
     {},
     WaitKind::store,
     "_store_based_barrier"},
    {WaitKind::socket,
     {python("_create_c10d_store", "/v/torch/distributed/rendezvous.py")},
     {},
     WaitKind::store,
     "_create_c10d_store"},
    {WaitKind::running,
     {python("synchronize", "/v/torch/cuda/__init__.py"), kUsers},
     {},
     WaitKind::device,
     "synchronize"},
    // A rank that computes below FSDP's own calls, and one that packs an object for a collective.
    {WaitKind::running,
     {kUsers, python("forward", "/v/torch/distributed/fsdp/fsdp.py")},
     {},
     WaitKind::running,
     ""},
    {WaitKind::running,
     {python("all_gather_object", "/v/torch/distributed/distributed_c10d.py")},
     {},
     WaitKind::running,
     ""},
    {WaitKind::sleep, {kUsers}, {}, WaitKind::sleep, ""},
    {WaitKind::running,
     {kUsers},
     {kPoll, native("cuStreamSynchronize", "/usr/lib/libcuda.so.1")},
     WaitKind::device,
     "cuStreamSynchronize"},
    {WaitKind::running,
     {kUsers},
     {native("libcuda.so.1+0x12", "/usr/lib/libcuda.so.1")},
     WaitKind::device,
     "libcuda.so.1+0x12"},
    {WaitKind::running,
     {},
     {native("opal_progress", "/l/libopen-pal.so"), native("PMPI_Barrier", "/l/libmpi.so")},
     WaitKind::running,
     ""},
    {WaitKind::running,
     {},
     {native("PMPI_Barrier", "/l/libmpi.so.40")},
     WaitKind::collective,
     "PMPI_Barrier"},
    {WaitKind::poll,
     {},
     {kPoll, native("opal_progress", "/l/libopen-pal.so"), native("MPI_Barrier", "/l/libx.so")},
     WaitKind::collective,
     "MPI_Barrier"},
    {WaitKind::socket,
     {kUsers},
     {kPoll, native("c10d::TCPStore::doWait", "/l/libtorch_cpu.so")},
     WaitKind::store,
     "c10d::TCPStore::doWait"},
    {WaitKind::lock,
     {kUsers},
     {native("gloo::transport::tcp::Buffer::waitRecv", "/l/libtorch_cpu.so")},
     WaitKind::collective,
     "gloo::transport::tcp::Buffer::waitRecv"},
    {WaitKind::lock,
     {},
     {kPoll, native("ddprun::ShmBackend::run", "/l/train")},
     WaitKind::collective,
     "ddprun::ShmBackend::run"},
    {WaitKind::file,
     {python("all_reduce", "/v/torch/distributed/distributed_c10d.py")},
     {},
     WaitKind::file,
     ""},
    {WaitKind::stopped, {}, {native("ncclGroupEnd", "/l/libnccl.so.2")}, WaitKind::stopped, ""},
    {WaitKind::lock, {}, {}, WaitKind::lock, ""},
};

}  // namespace

TEST_CASE("waits: what only the calls tell") {
    for (const FrameCase& one : kFrames) {
        Wait seen;
        seen.kind = one.seen;
        const Wait refined = refined_wait(seen, one.python, one.native);
        INFO(one.object << " " << name_of(one.seen));
        CHECK(name_of(refined.kind) == name_of(one.kind));
        CHECK(refined.object == one.object);
    }
}

}  // namespace ddprun
