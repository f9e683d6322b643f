#include "launcher/verdict/place.hpp"

#include "tests/launcher/verdict/observed.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

constexpr const char* kDist = "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py";

struct FileCase {
    Frame frame;
    bool is_users;
};

const FileCase kFiles[] = {
    {python("f", "/proj/train.py", 1), true},
    {python("f", "train.py", 1), true},
    {python("f", "/proj/torch/train.py", 1), true},
    {python("f", "<stdin>", 1), true},
    {python("f", "", 1), false},
    {python("f", "<frozen runpy>", 1), false},
    {python("f", "/usr/lib/python3.11/threading.py", 1), false},
    {python("f", "/opt/conda/lib/python3.12/queue.py", 1), false},
    {python("f", "/usr/lib/python3/dist-packages/numpy/core.py", 1), false},
    {python("f", "/proj/.venv/lib/python3.11/site-packages/x/y.py", 1), false},
    {python("f", "/opt/python311.zip/json/decoder.py", 1), false},
    {python("f", "/src/pytorch/torch/distributed/c10d_logger.py", 1), false},
    {python("f", "/src/ddprun/apps/python/ddprun/collectives.py", 1), false},
    {native("step", "/proj/train"), true},
    {native("", "/proj/train"), true},
    {native("step", "/proj/build/libmine.so"), true},
    {native("", ""), false},
    {native("read", "/lib/x86_64-linux-gnu/libc.so.6"), false},
    {native("poll", "[vdso]"), false},
    {native("f", "/opt/cuda/lib64/libcudart.so.12"), false},
    {native("_PyEval_EvalFrameDefault", "/opt/conda/bin/python3.12"), false},
    {native("ddprun::Communicator::barrier", "/proj/train"), false},
    {native("MPI_Recv", "/proj/train"), false},
};

struct OperationCase {
    std::vector<Frame> frames;
    const char* operation;
};

const OperationCase kOperations[] = {
    {{python("barrier", kDist, 4), python("step", "train.py", 1)}, "barrier"},
    {{python("barrier", kDist, 4), python("wrapper", "/x/site-packages/torch/distributed/c10d_logger.py", 5),
      python("step", "train.py", 1)},
     "barrier"},
    {{python("fetch", "data.py", 4), python("barrier", kDist, 4)}, ""},
    {{python("store_get", "/x/site-packages/torch/distributed/rendezvous.py", 4)}, "store_get"},
    {{python("_store_based_barrier", kDist, 4), python("init_process_group", kDist, 9),
      python("main", "t.py", 1)},
     "init_process_group"},
    {{native("c10d::PrefixStore::wait", "/opt/torch/libtorch_cpu.so")}, ""},
    {{native("c10d::detail::TCPClient::receive", "/opt/torch/libtorch_cpu.so")}, ""},
    {{native("ddprun::base::TcpStore::get", "/proj/train")}, "get"},
    {{native("epoll_wait", "/lib/libc.so.6"),
      native("gloo::transport::tcp::UnboundBuffer::waitRecv", "/x/libgloo.so")},
     ""},
    {{native("MPI_Allreduce", "/usr/lib/libmpi.so"), native("main", "/proj/solve")}, "MPI_Allreduce"},
    {{native("ncclAllReduce", "/opt/libnccl.so.2"), native("main", "/proj/solve")}, "ncclAllReduce"},
    {{native("ddprun::detail::PeerMesh::wait", "/proj/t"),
      native("ddprun::Communicator::all_gather", "/proj/t"), native("main", "/proj/t")},
     "all_gather"},
    {{python("all_gather", "/x/site-packages/ddprun/collectives.py", 40), python("step", "t.py", 1)},
     "all_gather"},
    {{native("", "/usr/lib/libcuda.so.535.1"), native("ncclGroupEnd", "/opt/libnccl.so.2")}, "ncclGroupEnd"},
    {{native("cudaStreamSynchronize", "/proj/static")}, ""},
    {{python("Event.synchronize", "/x/site-packages/torch/cuda/streams.py", 1)}, ""},
    {{python("save", "/x/site-packages/torch/distributed/checkpoint/filesystem.py", 1),
      python("step", "t.py", 1)},
     ""},
    {{python("gather_object", kDist, 1),
      python("save", "/x/site-packages/torch/distributed/checkpoint/x.py", 1)},
     "gather_object"},
    {{python("step", "t.py", 1), python("wrapper", "/x/site-packages/torch/distributed/elastic/e.py", 1)},
     ""},
    {{}, ""},
};

}  // namespace

TEST_CASE("places: which frames are the user's") {
    for (const FileCase& one : kFiles) {
        INFO(one.frame.function << " of " << one.frame.file);
        CHECK(is_users(one.frame) == one.is_users);
    }
}

TEST_CASE("places: the user's innermost frame, else the innermost") {
    const std::vector<Frame> frames = {native("read", "/lib/libc.so.6"),
                                       python("get", "/usr/lib/python3.11/queue.py", 3),
                                       python("next_batch", "data.py", 88), python("main", "train.py", 1)};
    CHECK(*place_of(frames) == frames[2]);
    const std::vector<Frame> foreign = {frames[0], frames[1]};
    CHECK(place_of(foreign) == &foreign[0]);
    CHECK(place_of({}) == nullptr);
}

TEST_CASE("places: in which operation a rank meets others") {
    for (const OperationCase& one : kOperations) {
        INFO((one.frames.empty() ? "none" : one.frames[0].function));
        CHECK(operation_of(one.frames) == one.operation);
    }
    CHECK(is_joining(kOperations[4].frames));
    CHECK(!is_joining(kOperations[0].frames));
}

TEST_CASE("places: a stack of Python and of native calls tells the kind of a wait") {
    const Frame poll = native("poll", "/lib/x86_64-linux-gnu/libc.so.6");
    const auto kind_of = [](const std::vector<Frame>& frames) {
        return refined_by_stack(wait_of(WaitKind::poll), frames).kind;
    };
    CHECK(kind_of({poll, python("barrier", kDist, 4)}) == WaitKind::collective);
    CHECK(kind_of({poll, native("gloo::wait", "/x/libgloo.so"), python("step", "t.py", 4)}) ==
          WaitKind::collective);
    CHECK(kind_of({poll, python("step", "t.py", 4)}) == WaitKind::poll);
    CHECK(kind_of({}) == WaitKind::poll);
}

}  // namespace ddprun
