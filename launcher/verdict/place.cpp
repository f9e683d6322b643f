#include "launcher/verdict/place.hpp"

#include <algorithm>
#include <iterator>

#include "launcher/look/waits/wait_frames.hpp"

namespace ddprun {
inline namespace launch {
namespace {

using Texts = std::string_view;

// Parts of the paths of Python files that are not the user's.
constexpr Texts kLibraryFiles[] = {
    "/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3",  "/torch/distributed/",
    "/torch/nn/",      "/torch/utils/",   "/torch/cuda/", "/torch/autograd", "/torch/optim/",
    "/torch/_",        "/python/ddprun/", ".zip/",
};
// Beginnings of folders and names of libraries that are not the user's.
constexpr Texts kSystemFolders[] = {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "[vdso]", "linux-vdso"};
constexpr Texts kSystemLibraries[] = {"libc.",     "libc-",     "libpthread", "libm.",     "ld-linux",
                                      "libstdc++", "libgcc_s",  "libgomp",    "libpython", "python",
                                      "libtorch",  "libc10",    "libnccl",    "libmpi",    "libopen-",
                                      "libuc",     "libddprun", "libcu",      "libnv",     "libgloo"};
constexpr Texts kLibraryFunctions[] = {
    "c10::", "std::", "boost::", "at::", "torch::", "_Py", "__libc_start", "start_thread", "_start"};

// Parts of the paths of PyTorch's modules that do not meet other ranks themselves.
constexpr Texts kQuietFiles[] = {"torch/distributed/checkpoint/", "torch/distributed/elastic/",
                                 "torch/distributed/optim/", "torch/distributed/fsdp/"};

constexpr Texts kJoiningFunctions[] = {"init_process_group", "MPI_Init", "PMPI_Init", "ncclCommInitRank"};
constexpr Texts kWrappers[] = {"wrapper", "inner", "decorate_context", "_fn", "__call__", "wait_stream"};
constexpr Texts kPointToPoint[] = {"send",
                                   "recv",
                                   "isend",
                                   "irecv",
                                   "send_object_list",
                                   "recv_object_list",
                                   "batch_isend_irecv",
                                   "MPI_Send",
                                   "MPI_Ssend",
                                   "MPI_Recv",
                                   "MPI_Sendrecv",
                                   "MPI_Probe",
                                   "ncclSend",
                                   "ncclRecv"};

template <std::size_t count>
bool contains_one(Texts text, const Texts (&parts)[count]) {
    return std::any_of(std::begin(parts), std::end(parts),
                       [&](Texts part) { return text.find(part) != Texts::npos; });
}

template <std::size_t count>
bool begins_with_one(Texts text, const Texts (&parts)[count]) {
    return std::any_of(std::begin(parts), std::end(parts),
                       [&](Texts part) { return text.starts_with(part); });
}

template <std::size_t count>
bool is_one(Texts text, const Texts (&parts)[count]) {
    return std::find(std::begin(parts), std::end(parts), text) != std::end(parts);
}

Texts behind_last(Texts text, char separator) {
    const auto end = text.rfind(separator);
    return end == Texts::npos ? text : text.substr(end + 1);
}

// The last part of a qualified name: "all_reduce" of "Group.all_reduce" and of
// "ddprun::Communicator::all_reduce".
Texts last_name(const Frame& frame) { return behind_last(frame.function, frame.native ? ':' : '.'); }

// What the frame would tell of a thread that waits for a lock; `lock`: nothing.
WaitKind kind_of_frame(const Frame& frame) {
    if (!frame.native && contains_one(frame.file, kQuietFiles)) return WaitKind::lock;
    return refined_by_stack(Wait{.kind = WaitKind::lock}, {frame}).kind;
}

// Behind the frames inside of the user's innermost one.
auto end_of_inner(const std::vector<Frame>& frames) {
    return std::find_if(frames.begin(), frames.end(), is_users);
}

}  // namespace

bool is_users(const Frame& frame) {
    const Texts file = frame.file;
    if (!frame.native)
        return !file.empty() && !file.starts_with("<frozen ") && !contains_one(file, kLibraryFiles);
    if ((file.empty() && frame.function.empty()) || kind_of_frame(frame) != WaitKind::lock) return false;
    return !begins_with_one(frame.function, kLibraryFunctions) && !begins_with_one(file, kSystemFolders) &&
           !begins_with_one(behind_last(file, '/'), kSystemLibraries) && !contains_one(file, kLibraryFiles);
}

const Frame* place_of(const std::vector<Frame>& frames) {
    if (frames.empty()) return nullptr;
    const auto users = end_of_inner(frames);
    return users == frames.end() ? &frames.front() : &*users;
}

Wait refined_by_stack(const Wait& wait, const std::vector<Frame>& frames) {
    const auto is_python = [](const Frame& frame) { return !frame.native; };
    const auto python = std::find_if(frames.begin(), frames.end(), is_python);
    return refined_wait(wait, {python, frames.end()}, {frames.begin(), python});
}

std::string operation_of(const std::vector<Frame>& frames) {
    std::string operation;
    for (auto frame = frames.begin(); frame != end_of_inner(frames); ++frame) {
        const WaitKind kind = kind_of_frame(*frame);
        // The classes inside of c10d and gloo have other names than what is called.
        const bool is_inside = frame->native && !frame->function.starts_with("ddprun::") &&
                               frame->function.find("::") != std::string::npos;
        const bool meets = kind == WaitKind::collective || kind == WaitKind::store;
        if (!meets || is_inside || is_one(last_name(*frame), kWrappers)) continue;
        operation = last_name(*frame);
    }
    return operation;
}

bool is_joining(const std::vector<Frame>& frames) {
    return std::any_of(frames.begin(), end_of_inner(frames), [](const Frame& frame) {
        return begins_with_one(last_name(frame), kJoiningFunctions);
    });
}

bool is_point_to_point(std::string_view operation) { return is_one(operation, kPointToPoint); }

}  // namespace launch
}  // namespace ddprun
