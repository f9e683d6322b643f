#include "collectives/nccl/nccl_comm.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "collectives/float16.hpp"
#include "rendezvous/system/quiet_thread.hpp"
#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace detail {

int NcclLibrary::checked_version() const {
    int found = 0;
    if (get_version(&found) != NcclResult::success) library.refuse("does not tell its version");
    if (found < kMinNcclVersion) {
        library.refuse(fmt::format("is version {}, but at least {} is needed", nccl_version_text(found),
                                   nccl_version_text(kMinNcclVersion)));
    }
    return found;
}

namespace {

namespace fs = std::filesystem;

constexpr const char* kSystemsName = "libnccl.so.2";

std::vector<fs::path> subfolders(const fs::path& folder, std::string_view prefix) {
    std::vector<fs::path> found;
    std::error_code none;
    for (fs::directory_iterator entry(folder, none), end; !none && entry != end; entry.increment(none)) {
        if (entry->path().filename().string().starts_with(prefix)) found.push_back(entry->path());
    }
    // python3.9 is older than python3.12.
    std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
        const std::string left = a.filename(), right = b.filename();
        return std::pair(left.size(), left) > std::pair(right.size(), right);
    });
    return found;
}

// A virtual environment's interpreter is a link to another one, and both have packages.
void add_prefixes(const fs::path& python, std::vector<fs::path>& prefixes) {
    std::error_code ignored;
    if (!python.is_absolute() || !fs::exists(python, ignored)) return;
    prefixes.push_back(python.parent_path().parent_path());
    prefixes.push_back(fs::canonical(python, ignored).parent_path().parent_path());
}

bool is_python(const std::string& program) {
    return fs::path(program).filename().string().starts_with("python");
}

std::string own_program() {
    std::string name;
    std::getline(std::ifstream("/proc/self/cmdline", std::ios::binary), name, '\0');
    return name;
}

}  // namespace

std::string packaged_nccl(const Environment& environment, const std::string& program) {
    const auto value = [&environment](const char* name) {
        const std::string* found = find_variable(environment, name);
        return found == nullptr ? std::string() : *found;
    };
    std::vector<fs::path> prefixes;
    if (is_python(program)) add_prefixes(program, prefixes);
    add_prefixes(value("PYTHON_EXEC"), prefixes);
    for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) prefixes.emplace_back(value(name));
    const std::string path = value("PATH"), python_path = value("PYTHONPATH"), home = value("HOME");
    for (const std::string_view folder : split_at(path, ':')) {
        const fs::path python = fs::path(folder) / "python3";
        std::error_code ignored;
        if (!fs::exists(python, ignored)) continue;
        add_prefixes(python, prefixes);
        break;
    }
    if (!home.empty()) prefixes.push_back(fs::path(home) / ".local");
    prefixes.emplace_back("/usr/local");
    std::vector<fs::path> folders;
    for (const std::string_view folder : split_at(python_path, ':')) folders.emplace_back(folder);
    for (const fs::path& prefix : prefixes) {
        if (!prefix.is_absolute()) continue;
        for (const fs::path& version : subfolders(prefix / "lib", "python3"))
            folders.insert(folders.end(), {version / "site-packages", version / "dist-packages"});
    }
    for (const fs::path& folder : folders) {
        std::error_code ignored;
        const fs::path library = folder / "nvidia/nccl/lib" / kSystemsName;
        if (folder.is_absolute() && fs::is_regular_file(library, ignored)) return library;
    }
    return {};
}

std::shared_ptr<const NcclLibrary> NcclLibrary::open(const std::string& path) {
    constexpr const char* kHelp =
        "set DDPRUN_NCCL_LIBRARY to the path of a libnccl.so.2, or use DDPRUN_BACKEND=cpu";
    std::string name = path;
    // What the program has loaded already is found by that name, too.
    if (name.empty() && ::dlopen(kSystemsName, RTLD_NOW | RTLD_LOCAL) == nullptr)
        name = packaged_nccl(current_environment(), own_program());
    return std::shared_ptr<const NcclLibrary>(
        new NcclLibrary({"NCCL", name.empty() ? kSystemsName : name, kHelp}));
}

std::string nccl_version_text(int version) {
    const int major_unit = version < 10'000 ? 1000 : 10'000;
    return fmt::format("{}.{}.{}", version / major_unit, version % major_unit / 100, version % 100);
}

namespace {

template <class T>
NcclScalar scalar_of(T value) noexcept {
    NcclScalar scalar;
    std::memcpy(scalar.bytes.data(), &value, sizeof(value));
    return scalar;
}

// The ranks that wait for each other in a collective do so for an element of their own, too: NCCL returns at
// once from an operation without elements.
NcclResult meet(const NcclLaunch& on) {
    return on.nccl.all_reduce(on.token, on.token, 1, NcclType::uint8, NcclOp::max, on.handle, on.stream);
}

// Also sends and receives without elements move one: a rank that only receives would not wait else.
NcclResult send(const NcclLaunch& on, const Call& call, const void* data, int peer) {
    const bool empty = call.count == 0;
    return on.nccl.send(empty ? on.token : data, empty ? 1 : call.count, nccl_type(call.type), peer,
                        on.handle, on.stream);
}

NcclResult recv(const NcclLaunch& on, const Call& call, void* data, int peer) {
    const bool empty = call.count == 0;
    return on.nccl.recv(empty ? on.token : data, empty ? 1 : call.count, nccl_type(call.type), peer,
                        on.handle, on.stream);
}

// Sends and receives that go on together; the first error counts.
class Together {
  public:
    explicit Together(const NcclLaunch& on) : on_(on) { keep(on.nccl.group_start()); }
    void send(const Call& call, const void* data, int peer) { keep(ddprun::send(on_, call, data, peer)); }
    void recv(const Call& call, void* data, int peer) { keep(ddprun::recv(on_, call, data, peer)); }
    NcclResult end() {
        keep(on_.nccl.group_end());
        return result_;
    }

  private:
    void keep(NcclResult result) noexcept {
        const bool settled = result_ != NcclResult::success && result_ != NcclResult::in_progress;
        if (!settled && result != NcclResult::success) result_ = result;
    }

    const NcclLaunch& on_;
    NcclResult result_ = NcclResult::success;
};

NcclResult gather(const NcclLaunch& on, const Task& task) {
    const Call& call = task.call;
    const bool is_root = on.rank == call.root;
    if (on.nccl.gather != nullptr) {
        return on.nccl.gather(task.in, is_root ? task.out : nullptr, call.count, nccl_type(call.type),
                              call.root, on.handle, on.stream);
    }
    Together together(on);
    together.send(call, task.in, call.root);
    for (int rank = 0; is_root && rank < on.ranks; ++rank) {
        together.recv(call, output_part(task, rank), rank);
    }
    return together.end();
}

NcclResult scatter(const NcclLaunch& on, const Task& task) {
    const Call& call = task.call;
    const bool is_root = on.rank == call.root;
    if (on.nccl.scatter != nullptr) {
        return on.nccl.scatter(is_root ? task.in : nullptr, task.out, call.count, nccl_type(call.type),
                               call.root, on.handle, on.stream);
    }
    Together together(on);
    for (int rank = 0; is_root && rank < on.ranks; ++rank) {
        together.send(call, input_part(task, rank), rank);
    }
    together.recv(call, task.out, call.root);
    return together.end();
}

NcclResult all_to_all(const NcclLaunch& on, const Task& task) {
    const Call& call = task.call;
    if (on.nccl.all_to_all != nullptr) {
        return on.nccl.all_to_all(task.in, task.out, call.count, nccl_type(call.type), on.handle, on.stream);
    }
    Together together(on);
    for (int rank = 0; rank < on.ranks; ++rank) {
        together.send(call, input_part(task, rank), rank);
        together.recv(call, output_part(task, rank), rank);
    }
    return together.end();
}

NcclResult group(const NcclLaunch& on, const std::vector<Task>& members) {
    Together together(on);
    for (const Task& member : members) {
        const Call& call = member.call;
        if (call.operation == Operation::send) {
            together.send(call, member.in, call.root);
        } else {
            together.recv(call, member.out, call.root);
        }
    }
    return together.end();
}

}  // namespace

NcclType nccl_type(DataType type) noexcept {
    switch (type) {
        case DataType::f32: return NcclType::float32;
        case DataType::f64: return NcclType::float64;
        case DataType::i32: return NcclType::int32;
        case DataType::i64: return NcclType::int64;
        case DataType::i8: return NcclType::int8;
        case DataType::u8: return NcclType::uint8;
        case DataType::u32: return NcclType::uint32;
        case DataType::u64: return NcclType::uint64;
        case DataType::f16: return NcclType::float16;
        case DataType::bf16: return NcclType::bfloat16;
    }
    return NcclType::uint8;
}

std::optional<NcclOp> nccl_op(ReduceOp op) noexcept {
    switch (op) {
        case ReduceOp::sum:
        case ReduceOp::premul_sum: return NcclOp::sum;
        case ReduceOp::prod: return NcclOp::prod;
        case ReduceOp::min: return NcclOp::min;
        case ReduceOp::max: return NcclOp::max;
        case ReduceOp::avg: return NcclOp::avg;
        case ReduceOp::band:
        case ReduceOp::bor:
        case ReduceOp::bxor: break;
    }
    return std::nullopt;
}

NcclScalar nccl_scalar(DataType type, double value) noexcept {
    switch (type) {
        case DataType::f64: return scalar_of(value);
        case DataType::f16: return scalar_of(Float16(static_cast<float>(value)));
        case DataType::bf16: return scalar_of(BFloat16(static_cast<float>(value)));
        case DataType::f32:
        case DataType::i32:  // integers have no premul_sum
        case DataType::i64:
        case DataType::i8:
        case DataType::u8:
        case DataType::u32:
        case DataType::u64: break;
    }
    return scalar_of(static_cast<float>(value));
}

NcclResult enqueue(const NcclLaunch& on, const Task& task) {
    const Call& call = task.call;
    const NcclType type = nccl_type(call.type);
    const std::size_t count = call.count;
    if (count == 0 && !is_point_to_point(call.operation)) return meet(on);
    switch (call.operation) {
        case Operation::all_reduce:
            return on.nccl.all_reduce(task.in, task.out, count, type, on.op, on.handle, on.stream);
        case Operation::broadcast:
            return on.nccl.broadcast(task.out, task.out, count, type, call.root, on.handle, on.stream);
        case Operation::reduce:
            return on.nccl.reduce(task.in, on.rank == call.root ? task.out : nullptr, count, type, on.op,
                                  call.root, on.handle, on.stream);
        case Operation::all_gather:
            return on.nccl.all_gather(task.in, task.out, count, type, on.handle, on.stream);
        case Operation::reduce_scatter:
            return on.nccl.reduce_scatter(task.in, task.out, count, type, on.op, on.handle, on.stream);
        case Operation::gather: return gather(on, task);
        case Operation::scatter: return scatter(on, task);
        case Operation::all_to_all: return all_to_all(on, task);
        case Operation::send: return send(on, call, task.in, call.root);
        case Operation::recv: return recv(on, call, task.out, call.root);
        case Operation::group: return group(on, *task.members);
        case Operation::none:
        case Operation::join:
        case Operation::barrier:
        case Operation::split:
        case Operation::parts: break;
    }
    return meet(on);
}

NcclComm::NcclComm(std::shared_ptr<const NcclLibrary> library,
                   std::shared_ptr<const CudaPrimaryContext> context)
    : core_(std::make_shared<Core>()) {
    core_->library = std::move(library);
    core_->context = std::move(context);
}

NcclComm::~NcclComm() { abort(); }

void NcclComm::begin(const NcclUniqueId& id, int rank, int ranks, std::shared_ptr<const Event> done) {
    core_->inside = Inside::helper;
    try {
        start_without_signals([core = core_, id, rank, ranks, done = std::move(done)] {
            core->make(id, rank, ranks);
            done->signal();
        }).detach();
    } catch (const std::system_error&) {
        core_->inside = Inside::nobody;
        throw;
    }
}

std::optional<NcclResult> NcclComm::made() const {
    const std::lock_guard lock(core_->mutex);
    return core_->made;
}

std::optional<NcclResult> NcclComm::state() {
    const CudaScope scope(context());
    return core_->visit(false, [&](NcclHandle handle) {
        auto found = NcclResult::success;
        const NcclResult asked = library().get_async_error(handle, &found);
        return asked == NcclResult::success ? found : asked;
    });
}

bool NcclComm::abort() {
    const std::lock_guard one(abort_mutex_);
    std::unique_lock lock(core_->mutex);
    core_->closed = true;
    core_->changed.notify_all();
    if (core_->ended || core_->gone) return core_->gone;
    if (!core_->made && core_->inside == Inside::helper) {
        // A caller that does not want it any more has waited for it long enough.
        core_->left_behind = true;
        return false;
    }
    lock.unlock();
    try {
        start_without_signals([core = core_] { core->abort(); }).detach();
    } catch (const std::system_error&) {
        // No thread can be had: as if NCCL did not return.
        return false;
    }
    lock.lock();
    core_->changed.wait_for(lock, kNcclAbortTimeout, [&] { return core_->ended; });
    core_->ended = true;
    return core_->gone;
}

bool NcclComm::finish(Deadline deadline) {
    std::unique_lock lock(core_->mutex);
    if (core_->closed || core_->handle == nullptr) return core_->gone;
    core_->closed = true;
    const auto is_in = [&] { return core_->is_free() && core_->come_in(Inside::helper); };
    if (!core_->changed.wait_until(lock, deadline, is_in)) return false;
    lock.unlock();
    try {
        start_without_signals([core = core_] { core->finish(); }).detach();
    } catch (const std::system_error&) {
        core_->leave();
        return false;
    }
    lock.lock();
    core_->changed.wait_until(lock, deadline, [&] { return core_->is_free() || core_->left_behind; });
    return core_->gone;
}

std::string NcclComm::describe(NcclResult result) const {
    const char* error = library().get_error_string(result);
    std::string text = error != nullptr ? error : fmt::format("error {}", static_cast<int>(result));
    // It is a call of no communicator in particular: NCCL does not look at which it is given.
    const char* words = library().get_last_error(nullptr);
    std::string last = words != nullptr ? words : "";
    while (!last.empty() && (last.back() == '\n' || last.back() == ' ')) last.pop_back();
    return last.empty() ? text : fmt::format("{} ({})", text, last);
}

bool NcclComm::Core::await_entry() {
    std::unique_lock lock(mutex);
    bool in = false;
    changed.wait(lock, [&] { return closed || (is_free() && (in = come_in(Inside::caller))); });
    return in;
}

void NcclComm::Core::leave() {
    inside = Inside::nobody;
    if (!awaited || !awaited.exchange(false)) return;
    // Who has looked and does not sleep yet would miss it.
    { const std::lock_guard lock(mutex); }
    changed.notify_all();
}

void NcclComm::Core::make(const NcclUniqueId& id, int rank, int ranks) {
    const CudaScope scope(*context);
    NcclConfig config;
    config.blocking = 1;
    NcclHandle created = nullptr;
    const NcclResult result = library->init_rank_config(&created, ranks, id, rank, &config);
    std::unique_lock lock(mutex);
    made = result;
    handle = created;
    helper_is_out(lock);
}

void NcclComm::Core::finish() {
    const CudaScope scope(*context);
    const bool finalized = library->finalize(handle) == NcclResult::success;
    if (finalized) library->destroy(handle);
    std::unique_lock lock(mutex);
    if (finalized) handle = nullptr;
    gone = finalized;
    helper_is_out(lock);
}

void NcclComm::Core::helper_is_out(std::unique_lock<std::mutex>& lock) {
    inside = Inside::nobody;
    const NcclHandle unwanted = left_behind ? handle.exchange(nullptr) : nullptr;
    lock.unlock();
    changed.notify_all();
    if (unwanted != nullptr) library->abort(unwanted);
}

void NcclComm::Core::abort() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kNcclCallTimeout, [&] { return is_free(); });
    left_behind = inside == Inside::helper;
    if (!left_behind) {
        const NcclHandle taken = handle.exchange(nullptr);
        lock.unlock();
        if (taken != nullptr) {
            const CudaScope scope(*context);
            library->abort(taken);
        }
        lock.lock();
        gone = true;
    }
    ended = true;
    changed.notify_all();
}

}  // namespace detail
}  // namespace ddprun
