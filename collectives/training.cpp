#include "collectives/training.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <future>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/distributed_sampler.hpp"
#include "collectives/grad_buckets.hpp"
#include "rendezvous/system/own_process.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
namespace {

void require_host_memory(const Communicator& communicator, const char* function) {
    if (communicator.backend() == BackendChoice::cpu) return;
    throw CollectiveError(CollectiveErrorCode::invalid_argument,
                          fmt::format("{}: NCCL takes no host memory; use a communicator of the backend cpu "
                                      "beside this one",
                                      function));
}

// Parts up to this size are copied together, into messages of up to kPackedSize.
constexpr std::size_t kSmallPart = std::size_t{64} << 10;
constexpr std::size_t kPackedSize = std::size_t{1} << 20;
// How often those who wait for an action hear that it goes on, at least.
constexpr std::chrono::milliseconds kLongestSilence{10'000};
constexpr std::chrono::milliseconds kShortestSilence{1};
constexpr std::size_t kMaxFailureText = 4096;

enum class ActionState : std::uint8_t { running, done, failed };

std::string text_of(const std::exception_ptr& thrown) {
    try {
        std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
        return error.what();
    } catch (...) {
        return "something that is no std::exception was thrown";
    }
}

void tell_end(Communicator& communicator, int rank, const std::exception_ptr& thrown) {
    auto state = static_cast<std::uint8_t>(thrown ? ActionState::failed : ActionState::done);
    communicator.broadcast(std::span(&state, 1), rank);
    if (!thrown) return;
    std::array<std::uint8_t, kMaxFailureText> text{};
    const std::string what = text_of(thrown);
    std::copy_n(what.begin(), std::min(what.size(), text.size()), text.begin());
    communicator.broadcast(std::span(text), rank);
}

// Tells the other ranks that the action goes on, until it has ended. What ended the communicator meanwhile.
std::optional<CollectiveError> keep_telling(Communicator& communicator, int rank,
                                            const std::future<void>& ended) {
    const std::chrono::milliseconds interval =
        std::clamp(communicator.options().operation_timeout / 4, kShortestSilence, kLongestSilence);
    try {
        while (ended.wait_for(interval) == std::future_status::timeout) {
            auto state = static_cast<std::uint8_t>(ActionState::running);
            communicator.broadcast(std::span(&state, 1), rank);
        }
    } catch (const CollectiveError& error) {
        return error;
    }
    return std::nullopt;
}

void act(Communicator& communicator, int rank, const std::function<void()>& action) {
    std::exception_ptr thrown;
    std::optional<CollectiveError> failure;
    std::promise<void> end;
    const std::future<void> ended = end.get_future();
    std::thread teller = start_without_signals([&] { failure = keep_telling(communicator, rank, ended); });
    try {
        action();
    } catch (...) {
        thrown = std::current_exception();
    }
    end.set_value();
    teller.join();
    if (failure && !thrown) throw *failure;
    if (!failure) tell_end(communicator, rank, thrown);
    if (thrown) std::rethrow_exception(thrown);
}

void await_action(Communicator& communicator, int rank) {
    auto state = static_cast<std::uint8_t>(ActionState::running);
    while (state == static_cast<std::uint8_t>(ActionState::running))
        communicator.broadcast(std::span(&state, 1), rank);
    if (state == static_cast<std::uint8_t>(ActionState::done)) return;
    std::array<std::uint8_t, kMaxFailureText> text{};
    communicator.broadcast(std::span(text), rank);
    const std::string what(text.begin(), std::find(text.begin(), text.end(), 0));
    throw ActionFailed(fmt::format("run_on_rank: the action failed on rank {}: {}", rank, what));
}

// Broadcasts small parts as one message.
void broadcast_packed(Communicator& communicator, std::span<const StatePart> parts, std::size_t bytes,
                      int root) {
    std::vector<std::uint8_t> packed(bytes);
    std::size_t place = 0;
    for (const StatePart& part : parts) {
        if (part.bytes > 0) std::memcpy(packed.data() + place, part.data, part.bytes);
        place += part.bytes;
    }
    communicator.broadcast(std::span(packed), root);
    place = 0;
    for (const StatePart& part : parts) {
        if (part.bytes > 0) std::memcpy(part.data, packed.data() + place, part.bytes);
        place += part.bytes;
    }
}

// Missing parameters that a message names.
constexpr std::size_t kMostNamed = 8;

[[noreturn]] void refuse_gradients(const std::string& what) {
    throw CollectiveError(CollectiveErrorCode::invalid_argument, "GradBuckets: " + what);
}

template <class T>
BucketPlan plan_for(std::span<const std::size_t> sizes, const GradBucketsOptions& options) {
    if (options.first_bucket_bytes == 0) refuse_gradients("first_bucket_bytes is 0");
    if (options.bucket_bytes == 0) refuse_gradients("bucket_bytes is 0");
    if (!is_defined(options.compression, data_type_of<T>()))
        refuse_gradients("only gradients of float can be compressed");
    const auto elements = [](std::size_t bytes) { return (bytes + sizeof(T) - 1) / sizeof(T); };
    return plan_buckets(sizes, elements(options.first_bucket_bytes), elements(options.bucket_bytes));
}

// torch.randperm on the CPU: a forward Fisher-Yates shuffle that draws 32 bits from a Mersenne Twister for
// each place but the last and reduces them by %. The generator keeps the low 32 bits of its seed, as mt19937
// does.
std::vector<std::size_t> random_permutation(std::size_t size, std::uint64_t seed) {
    std::vector<std::size_t> order(size);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937 generator(static_cast<std::uint32_t>(seed));
    for (std::size_t i = 0; i + 1 < size; ++i) {
        std::swap(order[i], order[i + generator() % (size - i)]);
    }
    return order;
}

}  // namespace

void average(Communicator& communicator, std::span<double> values, double weight) {
    require_host_memory(communicator, "average");
    std::vector<double> sums(values.begin(), values.end());
    // A rank without samples has no say, not even with the NaN it may have for a mean.
    for (double& sum : sums) sum = weight == 0 ? 0 : sum * weight;
    sums.push_back(weight);
    communicator.all_reduce(std::span(sums), ReduceOp::sum);
    const double total = sums.back();
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = total == 0 ? std::numeric_limits<double>::quiet_NaN() : sums[i] / total;
}

double average(Communicator& communicator, double value, double weight) {
    average(communicator, std::span(&value, 1), weight);
    return value;
}

void broadcast_state(Communicator& communicator, std::span<const StatePart> parts, int root) {
    require_host_memory(communicator, "broadcast_state");
    std::size_t begin = 0;
    while (begin < parts.size()) {
        if (parts[begin].bytes > kSmallPart) {
            communicator.broadcast(parts[begin].data, parts[begin].bytes, DataType::u8, root);
            ++begin;
            continue;
        }
        std::size_t end = begin;
        std::size_t bytes = 0;
        while (end < parts.size() && parts[end].bytes <= kSmallPart && bytes <= kPackedSize)
            bytes += parts[end++].bytes;
        broadcast_packed(communicator, parts.subspan(begin, end - begin), bytes, root);
        begin = end;
    }
}

void run_on_rank(Communicator& communicator, int rank, const std::function<void()>& action) {
    if (rank < 0 || rank >= communicator.world_size()) {
        throw CollectiveError(CollectiveErrorCode::invalid_argument,
                              fmt::format("run_on_rank: rank {} is not a rank of this communicator (0..{})",
                                          rank, communicator.world_size() - 1));
    }
    require_host_memory(communicator, "run_on_rank");
    // This comes before the action is begun.
    const Status status = communicator.status();
    if (status.code() == CollectiveErrorCode::invalid_argument) status.throw_if_failed();
    if (communicator.rank() == rank) return act(communicator, rank, action);
    await_action(communicator, rank);
}

BucketPlan plan_buckets(std::span<const std::size_t> sizes, std::size_t first_limit, std::size_t limit) {
    BucketPlan plan;
    plan.bucket_of.resize(sizes.size());
    plan.offsets.push_back(0);
    for (const std::size_t size : sizes) plan.offsets.push_back(plan.offsets.back() + size);
    std::size_t end = sizes.size();
    while (end > 0) {
        const std::size_t most = plan.buckets.empty() ? first_limit : limit;
        std::size_t first = end - 1;
        while (first > 0 && plan.offsets[end] - plan.offsets[first] < most) --first;
        for (std::size_t i = first; i < end; ++i) plan.bucket_of[i] = plan.buckets.size();
        plan.buckets.push_back({first, end, plan.offsets[first], plan.offsets[end] - plan.offsets[first]});
        end = first;
    }
    return plan;
}

BucketTurns::BucketTurns(const BucketPlan& plan)
    : plan_(plan), ready_(plan.parameters()), missing_(plan.buckets.size()) {
    reset();
}

bool BucketTurns::mark_ready(std::size_t parameter) {
    if (ready_[parameter]) return false;
    ready_[parameter] = true;
    --missing_[plan_.bucket_of[parameter]];
    return true;
}

std::size_t BucketTurns::take_next() {
    if (all_taken() || missing_[next_] > 0) return missing_.size();
    return next_++;
}

std::vector<std::size_t> BucketTurns::not_ready(std::size_t most) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < ready_.size() && found.size() < most; ++i) {
        if (!ready_[i]) found.push_back(i);
    }
    return found;
}

void BucketTurns::reset() {
    std::fill(ready_.begin(), ready_.end(), false);
    for (std::size_t i = 0; i < missing_.size(); ++i)
        missing_[i] = plan_.buckets[i].end - plan_.buckets[i].first;
    next_ = 0;
}

template <class T>
GradBuckets<T>::GradBuckets(Communicator& communicator, std::span<const std::size_t> sizes,
                            const GradBucketsOptions& options)
    : communicator_(communicator),
      process_(this_process()),
      options_(options),
      plan_(plan_for<T>(sizes, options)),
      turns_(plan_),
      gradients_(communicator.allocate<T>(plan_.elements())),
      works_(plan_.buckets.size()) {}

template <class T>
GradBuckets<T>::~GradBuckets() {
    for (const Work& work : works_) {
        try {
            work.wait();
        } catch (const CollectiveError&) {
            // Nobody asked how it ended; later calls of the communicator tell.
        }
    }
}

template <class T>
std::span<T> GradBuckets<T>::gradient(std::size_t parameter) {
    if (parameter >= parameters())
        refuse_gradients(fmt::format("parameter {} is not below their number, {}", parameter, parameters()));
    const std::size_t begin = plan_.offsets[parameter];
    return gradients_.span().subspan(begin, plan_.offsets[parameter + 1] - begin);
}

template <class T>
void GradBuckets<T>::require_own_process() const {
    if (process_ != this_process())
        refuse_gradients("they belong to another process, which this one was forked from");
}

template <class T>
void GradBuckets<T>::mark_ready(std::size_t parameter) {
    require_own_process();
    gradient(parameter);
    if (!turns_.mark_ready(parameter))
        refuse_gradients(fmt::format("parameter {} is ready already in this step", parameter));
    const ReduceOp op = options_.average ? ReduceOp::avg : ReduceOp::sum;
    for (std::size_t next = turns_.take_next(); next < buckets(); next = turns_.take_next()) {
        const BucketPlan::Bucket& range = plan_.buckets[next];
        works_[next] = communicator_.async().all_reduce(gradients_.span().subspan(range.offset, range.size),
                                                        op, options_.compression);
    }
}

template <class T>
void GradBuckets<T>::wait_all() {
    require_own_process();
    if (!turns_.all_taken()) {
        std::string names;
        for (const std::size_t parameter : turns_.not_ready(kMostNamed))
            names += fmt::format(" {}", parameter);
        refuse_gradients("wait_all while gradients are not ready, among them of parameter" + names);
    }
    for (std::size_t bucket = 0; bucket < buckets(); ++bucket) works_[bucket].wait();
    turns_.reset();
}

template class GradBuckets<float>;
template class GradBuckets<double>;

DistributedSampler::DistributedSampler(std::size_t size, int num_replicas, int rank,
                                       DistributedSamplerOptions options)
    : size_(size), options_(options) {
    const auto require = [](bool good, const std::string& what) {
        if (!good) throw std::invalid_argument("DistributedSampler: " + what);
    };
    require(num_replicas >= 1, fmt::format("num_replicas is {}, must be at least 1", num_replicas));
    require(rank >= 0 && rank < num_replicas,
            fmt::format("rank is {}, must be in 0..{}", rank, num_replicas - 1));
    require(!options.shuffle || size < kShuffleSizeLimit,
            fmt::format("{} samples, fewer than {} can be shuffled", size, +kShuffleSizeLimit));
    num_replicas_ = static_cast<std::size_t>(num_replicas);
    rank_ = static_cast<std::size_t>(rank);
    const bool uneven = size % num_replicas_ != 0;
    num_samples_ = size / num_replicas_ + (uneven && !options.drop_last ? 1 : 0);
}

void DistributedSampler::set_epoch(std::uint64_t epoch) { epoch_ = epoch; }

std::vector<std::size_t> DistributedSampler::indices() const {
    std::vector<std::size_t> order;
    if (options_.shuffle) order = random_permutation(size_, options_.seed + epoch_);

    std::vector<std::size_t> mine(num_samples_);
    for (std::size_t j = 0; j < num_samples_; ++j) {
        const std::size_t place = (rank_ + j * num_replicas_) % size_;
        mine[j] = options_.shuffle ? order[place] : place;
    }
    return mine;
}

}  // namespace ddprun
