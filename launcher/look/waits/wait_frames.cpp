#include "launcher/look/waits/wait_frames.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

namespace ddprun {
inline namespace launch {
namespace {

struct CallRow {
    std::string_view file;      // a part of its path; empty: any
    std::string_view function;  // how it begins; empty: any
    WaitKind kind;
};

// Of the innermost function of Python: the first row that fits.
constexpr CallRow kPython[] = {
    {"torch/distributed/rendezvous.py", "", WaitKind::store},
    {"torch/distributed/", "_store_based_barrier", WaitKind::store},
    {"torch/distributed/elastic/utils/store.py", "", WaitKind::store},
    {"torch/distributed/", "", WaitKind::collective},
    {"torch/cuda/", "synchronize", WaitKind::device},
    {"torch/cuda/streams.py", "", WaitKind::device},
    {"torch/accelerator/", "synchronize", WaitKind::device},
    {"ddprun/collectives.py", "", WaitKind::collective},
    {"mpi4py/", "", WaitKind::collective},
};

// Of native functions.
constexpr CallRow kNative[] = {
    {"libcuda.so", "", WaitKind::device},
    {"libcudart", "", WaitKind::device},
    {"libamdhip64", "", WaitKind::device},
    {"libhsa-runtime64", "", WaitKind::device},
    {"libze_intel_gpu", "", WaitKind::device},
    {"", "c10d::TCPStore", WaitKind::store},
    {"", "c10d::PrefixStore", WaitKind::store},
    {"", "c10d::FileStore", WaitKind::store},
    {"", "c10d::detail::TCPClient", WaitKind::store},
    {"", "ddprun::base::TcpStore", WaitKind::store},
    {"", "c10d::", WaitKind::collective},
    {"", "gloo::", WaitKind::collective},
    {"libnccl", "", WaitKind::collective},
    {"", "nccl", WaitKind::collective},
    {"", "MPI_", WaitKind::collective},
    {"", "PMPI_", WaitKind::collective},
    {"libmpi", "", WaitKind::collective},
    {"libddprun_collectives", "", WaitKind::collective},
    {"", "ddprun::", WaitKind::collective},
};

template <std::size_t Count>
const CallRow* find_row(const CallRow (&rows)[Count], const Frame& frame) {
    const auto row = std::find_if(std::begin(rows), std::end(rows), [&](const CallRow& one) {
        return frame.file.find(one.file) != std::string::npos && frame.function.starts_with(one.function);
    });
    return row == std::end(rows) ? nullptr : row;
}

// What every wait ends in.
bool is_of_c_library(const Frame& frame) {
    constexpr std::string_view kFiles[] = {"[vdso]",      "/libc.so",  "/libc-",
                                           "/libpthread", "/ld-linux", "/libstdc++.so"};
    return std::any_of(std::begin(kFiles), std::end(kFiles),
                       [&](std::string_view file) { return frame.file.find(file) != std::string::npos; });
}

bool may_be_for_more(WaitKind kind) {
    constexpr WaitKind kKinds[] = {WaitKind::running, WaitKind::sleep, WaitKind::lock,  WaitKind::socket,
                                   WaitKind::pipe,    WaitKind::poll,  WaitKind::device};
    return std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds);
}

// The first row that fits one of the calls, from the innermost on. Of a thread that runs one call counts:
// those further out may have called a function that computes.
const CallRow* find_native(std::span<const Frame> native, bool runs, const Frame*& call) {
    for (const Frame& frame : native) {
        if (is_of_c_library(frame)) continue;
        const CallRow* row = find_row(kNative, frame);
        call = &frame;
        if (row != nullptr || runs) return row;
    }
    return nullptr;
}

}  // namespace

Wait refined_wait(const Wait& wait, std::span<const Frame> python, std::span<const Frame> native) {
    if (!may_be_for_more(wait.kind)) return wait;
    const bool runs = wait.kind == WaitKind::running;
    const Frame* call = python.empty() ? nullptr : &python.front();
    const CallRow* row = call == nullptr ? nullptr : find_row(kPython, *call);
    // What runs in Python computes there, but in a call that is for nothing else than to wait.
    if (row != nullptr && runs && row->kind != WaitKind::device) row = nullptr;
    if (row == nullptr) row = find_native(native, runs, call);
    if (row == nullptr) return wait;
    Wait refined = wait;
    refined.kind = row->kind;
    refined.object = call->function;
    return refined;
}

}  // namespace launch
}  // namespace ddprun
