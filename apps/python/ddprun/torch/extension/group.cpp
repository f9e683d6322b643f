#include "apps/python/ddprun/torch/extension/group.hpp"

#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <random>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "apps/python/ddprun/torch/extension/meeting.hpp"

namespace ddprun {
inline namespace app {
namespace {

// Tags of the monitored barrier; those of callers are below it.
constexpr uint64_t kMonitorTag = uint64_t{1} << 32;
// A call that takes longer is left behind.
constexpr Milliseconds kCallsTimeout{10'000};

ddprun_options settings(const Group::Options& options) {
    ddprun_options settings = DDPRUN_OPTIONS_INIT;
    settings.operation_timeout_ms = options.timeout.count();
    settings.join_timeout_ms = options.timeout.count();
    settings.backend = DDPRUN_BACKEND_CPU;
    return settings;
}

c10::intrusive_ptr<Group::Options> options_like(const Group::Options& own,
                                                const c10::intrusive_ptr<c10d::Backend::Options>& given) {
    auto options = c10::make_intrusive<Group::Options>(given ? given->timeout : own.timeout);
    if (given) {
        options->group_name = given->group_name;
        options->global_ranks_in_group = given->global_ranks_in_group;
    }
    return options;
}

at::Tensor& single(Tensors& tensors) {
    TORCH_CHECK(tensors.size() == 1, "ddprun: send and recv take a single tensor");
    TORCH_CHECK(tensors[0].is_contiguous(), "input tensor has to be contiguous");
    TORCH_CHECK(!tensors[0].is_sparse(), "input tensor has to be dense");
    TORCH_CHECK(tensors[0].device().is_cpu(), "ddprun: unsupported device type ", tensors[0].device().type());
    return tensors[0];
}

uint64_t checked_tag(int tag) {
    TORCH_CHECK(tag >= 0, "Tag must be nonnegative");
    return static_cast<uint64_t>(tag);
}

std::string why(const std::exception& error) {
    const auto* known = dynamic_cast<const c10::Error*>(&error);
    return known != nullptr ? known->what_without_backtrace() : error.what();
}

std::string new_handle() {
    std::random_device source;
    return c10::str("ddprun-", getpid(), "-", source(), "-", source());
}

}  // namespace

Group::Group(c10::intrusive_ptr<c10d::Store> store, int rank, int size, c10::intrusive_ptr<Options> options,
             const Group* parent, const std::vector<int>& ranks, bool later)
    : Collectives(rank, size), store_(std::move(store)), options_(std::move(options)), handle_(new_handle()) {
    if (later) return;
    const ddprun_options how = settings(*options_);
    ddprun_communicator* made = parent == nullptr ? join(store_, rank, size, how) : nullptr;
    if (parent != nullptr)
        require(ddprun_subgroup(parent->communicator_.get(), ranks.data(), ranks.size(),
                                options_->group_name.c_str(), &how, &made));
    take(made);
}

Group::Group(c10::intrusive_ptr<c10d::Store> store, ddprun_communicator* made,
             c10::intrusive_ptr<Options> options)
    : Collectives(ddprun_rank(made), ddprun_world_size(made)),
      store_(std::move(store)),
      options_(std::move(options)),
      handle_(new_handle()) {
    take(made);
}

Group::~Group() { leave(); }

void Group::take(ddprun_communicator* made) {
    communicator_.reset(made, ddprun_destroy);
    hooks_->watch(made, calls_);
}

// What has not ended ends by it; works that callers have stay as they are.
void Group::leave() {
    // This waits for threads which may need Python's lock to let go of a tensor.
    std::optional<pybind11::gil_scoped_release> unlocked;
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) unlocked.emplace();
    communicator_.reset();
    forget();
    await_calls();
}

void Group::end_calls() {
    calls_->close();
    await_calls();
}

void Group::await_calls() { calls_->wait(kCallsTimeout); }

void Group::setTimeout(Milliseconds timeout) {
    options_->timeout = timeout;
    if (communicator_) require(ddprun_set_timeout(communicator_.get(), timeout.count()));
}

at::Tensor Group::allocateTensor(long size, at::TensorOptions options) {
    TORCH_CHECK(size >= 0 && options.device().is_cpu(),
                "ddprun: memory of a group is the CPU's, of no size below 0");
    ddprun_buffer* buffer = nullptr;
    require(ddprun_allocate(communicator(), static_cast<size_t>(size) * options.dtype().itemsize(), &buffer));
    const auto release = [buffer](void*) { ddprun_buffer_release(buffer); };
    return at::from_blob(ddprun_buffer_data(buffer), {size}, release, options);
}

WorkPointer Group::message(c10d::OpType type, const char* title, Tensors& tensors, int peer, uint64_t tag,
                           Milliseconds limit) {
    at::Tensor& tensor = single(tensors);
    ddprun_communicator* comm = communicator();
    Task task({tensors}, tensors);
    task.keep(tensor);
    auto operation =
        c10::make_intrusive<Operation>(rank_, type, title, sequence_.load(), limit, std::move(task));
    ddprun_work* work = nullptr;
    const int code = type == c10d::OpType::SEND
                         ? ddprun_start_send_tagged(comm, tensor.data_ptr(), tensor.nbytes(), peer, tag,
                                                    limit.count(), &work)
                         : ddprun_start_recv_tagged(comm, tensor.data_ptr(), tensor.nbytes(), peer, tag,
                                                    limit.count(), &work);
    require(code);
    operation->flight()->works.push_back(work);
    remember(operation->flight());
    return operation;
}

WorkPointer Group::send(Tensors& tensors, int peer, int tag) {
    return message(c10d::OpType::SEND, "ddprun:send", tensors, peer, checked_tag(tag), options_->timeout);
}

WorkPointer Group::recv(Tensors& tensors, int peer, int tag) {
    return message(c10d::OpType::RECV, "ddprun:recv", tensors, peer, checked_tag(tag), options_->timeout);
}

WorkPointer Group::recvAnysource(Tensors& tensors, int tag) {
    constexpr int kAnyone = -1;
    return message(c10d::OpType::RECVANYSOURCE, "ddprun:recvAnySource", tensors, kAnyone, checked_tag(tag),
                   options_->timeout);
}

// Rank 0 hears of each of the others, and then tells them how it went; so it, and it alone, knows who is
// missing.
void Group::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
    const Milliseconds limit = options.timeout == c10d::kUnsetTimeout ? options_->timeout : options.timeout;
    const uint64_t tag = kMonitorTag + 2 * monitored_++;
    if (rank_ != 0) return answer_monitor(tag, options_->timeout);
    const auto tell = [&](int verdict) {
        Tensors word{at::full({1}, verdict, at::kByte)};
        std::vector<WorkPointer> told;
        for (int peer = 1; peer < size_; ++peer)
            told.push_back(
                message(c10d::OpType::SEND, "ddprun:send", word, peer, tag + 1, options_->timeout));
        return told;
    };
    try {
        hear_all(tag, limit, wait_all_ranks);
    } catch (...) {
        // Those that have not come find it when they do.
        if (lives()) tell(1);
        throw;
    }
    for (const WorkPointer& work : tell(0)) work->wait();
}

void Group::hear_all(uint64_t tag, Milliseconds limit, bool wait_all_ranks) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    std::vector<Tensors> words;
    std::vector<WorkPointer> heard;
    for (int peer = 1; peer < size_; ++peer) {
        words.push_back({at::zeros({1}, at::kByte)});
        heard.push_back(
            message(c10d::OpType::RECV, "ddprun:recv", words.back(), peer, tag, options_->timeout));
    }
    std::vector<int> passed;
    std::vector<int> missing;
    for (int peer = 1; peer < size_; ++peer) {
        const auto left =
            wait_all_ranks
                ? limit
                : std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left <= Milliseconds(0)) {
            const std::string who =
                passed.empty() ? std::string("No ranks successfully processed in monitoredBarrier.")
                               : c10::str("Only ranks ", c10::Join(", ", passed), " successfully processed.");
            throw RankError(
                DDPRUN_TIMED_OUT,
                c10::str("Rank 0 timed out in monitoredBarrier after ", limit.count(), " ms.\n ", who),
                {peer});
        }
        try {
            heard[static_cast<size_t>(peer) - 1]->wait(left);
            passed.push_back(peer);
        } catch (const std::exception& error) {
            if (!wait_all_ranks)
                throw RankError(DDPRUN_TIMED_OUT,
                                c10::str("[Rank 0]: Rank ", peer, " failed to pass monitoredBarrier in ",
                                         limit.count(), " ms\n Original exception: \n", why(error)),
                                {peer});
            missing.push_back(peer);
        }
    }
    if (!missing.empty()) {
        const std::string text = c10::str("[Rank 0]: Ranks ", c10::Join(", ", missing),
                                          " failed to pass monitoredBarrier in ", limit.count(), " ms");
        throw RankError(DDPRUN_TIMED_OUT, text, missing);
    }
}

void Group::answer_monitor(uint64_t tag, Milliseconds limit) {
    Tensors word{at::zeros({1}, at::kByte)};
    try {
        message(c10d::OpType::SEND, "ddprun:send", word, 0, tag, limit)->wait();
        message(c10d::OpType::RECV, "ddprun:recv", word, 0, tag + 1, limit)->wait();
        TORCH_CHECK(word[0].item<int>() == 0, "rank 0 says that others have not come");
    } catch (const std::exception& error) {
        throw RankError(
            DDPRUN_TIMED_OUT,
            c10::str(
                "Rank ", rank_,
                " successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
                "rank 0. Please check rank 0 logs for faulty rank.\n Original exception: \n",
                why(error)),
            {0});
    }
}

c10::intrusive_ptr<c10d::Backend> Group::split(const c10::intrusive_ptr<c10d::Store>& store,
                                               const std::vector<int>& ranks,
                                               const c10::intrusive_ptr<Backend::Options>& options) {
    const auto own = std::find(ranks.begin(), ranks.end(), rank_);
    if (own == ranks.end()) return nullptr;
    return c10::make_intrusive<Group>(store, static_cast<int>(own - ranks.begin()),
                                      static_cast<int>(ranks.size()), options_like(*options_, options),
                                      lives() ? this : nullptr, ranks);
}

c10::intrusive_ptr<c10d::Backend> Group::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                               const c10::intrusive_ptr<Backend::Options>& options,
                                               const int& rank, const int& size) {
    return c10::make_intrusive<Group>(store, rank, size, options_like(*options_, options));
}

c10::intrusive_ptr<c10d::Backend> Group::shrink(const std::vector<int64_t>& excluded, int flags,
                                                const c10::intrusive_ptr<Backend::Options>& options) {
    ddprun_communicator* comm = communicator();
    constexpr int kAbort = 1;
    if ((flags & kAbort) != 0) abort();
    const std::vector<int> ranks(excluded.begin(), excluded.end());
    ddprun_communicator* rest = nullptr;
    require(ddprun_shrink(comm, ranks.data(), ranks.size(), &rest));
    return c10::intrusive_ptr<Backend>::unsafe_steal_from_new(
        new Group(store_, rest, options_like(*options_, options)));
}

#ifdef C10D_BACKEND_HAS_RECONFIGURE
WorkPointer Group::reconfigure(const c10d::ReconfigureOptions& options) {
    std::vector<c10d::ReconfigureHandle> handles;
    if (const auto* ordered = std::get_if<std::vector<c10d::ReconfigureHandle>>(&options.handles)) {
        handles = *ordered;
    } else {
        const auto& any = std::get<std::unordered_set<c10d::ReconfigureHandle>>(options.handles);
        handles.assign(any.begin(), any.end());
        std::sort(handles.begin(), handles.end());
    }
    const auto own = std::find(handles.begin(), handles.end(), handle_);
    TORCH_CHECK(own != handles.end(), "ddprun: reconfigure: this process's own handle is not among the ",
                handles.size(), " given");
    Options how(options.timeout.value_or(options_->timeout));
    const auto place = c10::make_intrusive<c10d::PrefixStore>(c10::str("reconfigure/", options.uuid), store_);
    const auto rank = static_cast<int>(own - handles.begin());
    const auto size = static_cast<int>(handles.size());
    leave();
    take(join(place, rank, size, settings(how)));
    setTimeout(options_->timeout);
    rank_ = rank;
    size_ = size;
    sequence_ = 0;
    monitored_ = 0;
    auto done = c10::make_intrusive<Operation>(rank_, c10d::OpType::UNKNOWN, "ddprun:reconfigure", 0,
                                               options_->timeout, Task());
    done->end(nullptr);
    return done;
}
#endif

c10d::ErrorType Group::getError() {
    if (!communicator_) return c10d::ErrorType::SUCCESS;
    switch (ddprun_status(communicator_.get())) {
        case DDPRUN_OK: return c10d::ErrorType::SUCCESS;
        case DDPRUN_TIMED_OUT: return c10d::ErrorType::TIMEOUT;
        case DDPRUN_PEER_DIED:
        case DDPRUN_PEER_LEFT: return c10d::ErrorType::REMOTE_ERROR;
        default: return c10d::ErrorType::COMM_ERROR;
    }
}

void Group::abort() {
    // A hook of torch's takes seconds, and the others wait for the word.
    hooks_->aborts();
    const int code = communicator_ ? ddprun_abort(communicator_.get(), "abort() was called") : DDPRUN_OK;
    hooks_->run();
    require(code);
}

void Group::shutdown() { leave(); }

}  // namespace app
}  // namespace ddprun
