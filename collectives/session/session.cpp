#include "collectives/session/session.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <utility>

#include "collectives/arithmetic/reduce.hpp"
#include "collectives/call/backend.hpp"
#include "collectives/call/call.hpp"
#include "collectives/error.hpp"
#include "collectives/messages/transfers.hpp"
#include "collectives/wire/frame.hpp"
#include "rendezvous/base/check.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/store/store_host.hpp"
#include "rendezvous/system/own_process.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// Gets what is known to be in the store.
constexpr std::chrono::milliseconds kStoredTimeout{10'000};
// A thread that has carried out what was started stays so long where it is: waking it costs less than another
// one.
constexpr std::chrono::milliseconds kLinger{1};
constexpr char kLate = 't';
constexpr char kDisagreement = 'm';

// Why there is no table: `!`, a letter for the code, the culprits, a line's end, a sentence.
std::string encode_failure(char code, const std::vector<int>& culprits, const std::string& text) {
    return fmt::format("!{}{}\n{}", code, encode_ranks(culprits), text);
}

bool expects(const Terms& terms, int rank) {
    return rank < terms.world_size && !std::binary_search(terms.excluded.begin(), terms.excluded.end(), rank);
}

struct RanksTerms {
    int rank;
    Terms terms;
};

std::string encode_terms(int rank, const Terms& terms) {
    return fmt::format("{} {} {}", rank, terms.world_size, encode_ranks(terms.excluded));
}

std::optional<RanksTerms> decode_terms(std::string_view text) {
    std::array<std::vector<int>, 3> fields;
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const bool last = i + 1 == fields.size();
        const std::size_t end = last ? text.size() : text.find(' ');
        if (end == std::string_view::npos) return std::nullopt;
        auto ranks = decode_ranks(text.substr(0, end));
        if (!ranks || (!last && ranks->size() != 1)) return std::nullopt;
        fields[i] = std::move(*ranks);
        text.remove_prefix(last ? end : end + 1);
    }
    return RanksTerms{fields[0].front(), {fields[1].front(), std::move(fields[2])}};
}

std::string choice_of(int rank, const Terms& terms, const Terms& others) {
    if (terms.world_size != others.world_size)
        return fmt::format("rank {} expects {} ranks", rank, terms.world_size);
    return fmt::format("rank {} excludes {}", rank,
                       terms.excluded.empty() ? "nobody" : list_of_ranks(terms.excluded));
}

void refuse_parts(const Task& task) {
    if (task.parts) refuse(task.call.operation, "NCCL moves no parts; use a group of sends and receives");
}

}  // namespace

bool Departure::wait_for_others(std::chrono::milliseconds timeout) {
    std::vector<int> others;
    for (int i = 0; i < world_size_; ++i) {
        if (i != rank_) others.push_back(i);
    }
    return wait_for(others, timeout);
}

bool Departure::wait_for(const std::vector<int>& ranks, std::chrono::milliseconds timeout) {
    std::vector<std::string> keys;
    for (const int rank : ranks) keys.push_back(key(rank));
    if (keys.empty()) return true;
    try {
        store_.wait(keys, timeout);
    } catch (const boost::system::system_error& error) {
        if (error.code() != make_error_code(Errc::timed_out)) throw;
        return false;
    }
    return true;
}

Gathering::Gathering(Store& store, GatheringNames names, std::string prefix, int rank, Terms terms)
    : store_(store), names_(names), prefix_(std::move(prefix)), rank_(rank), terms_(std::move(terms)) {
    for (int i = 0; i < terms_.world_size; ++i) {
        if (expects(terms_, i)) expected_.push_back(i);
    }
    new_rank_ =
        static_cast<int>(std::lower_bound(expected_.begin(), expected_.end(), rank_) - expected_.begin());
}

std::string Gathering::key(const char* name, int rank) const {
    return fmt::format("{}{}/{}", prefix_, name, rank);
}

Departure Gathering::departure() const {
    return {store_, prefix_, new_rank_, static_cast<int>(expected_.size())};
}

Membership Gathering::run(const Member& self, Deadline deadline) {
    require_agreement();
    store_.set(key("member", rank_), to_string(self));
    if (store_.add(prefix_ + "arrived", 1) >= static_cast<std::int64_t>(expected_.size())) make_table();
    const std::string decision = await_decision(deadline);
    throw_if_failure(decision);
    auto membership = parse_table(decision, static_cast<int>(expected_.size()));
    if (!membership) fail(Errc::malformed, "what the store has under " + prefix_ + "table is no table");
    membership->rank = new_rank_;
    return *membership;
}

void Gathering::require_agreement() {
    const auto first = decode_terms(store_.compare_set(prefix_ + "terms", "", encode_terms(rank_, terms_)));
    if (!first) fail(Errc::malformed, "what the store has under " + prefix_ + "terms is no list of ranks");
    if (first->terms == terms_) return;
    const std::string failure =
        encode_failure(kDisagreement, {first->rank, rank_},
                       fmt::format("the ranks disagree: {}, {}", choice_of(first->rank, first->terms, terms_),
                                   choice_of(rank_, terms_, first->terms)));
    // One whom the others do not expect spoils nothing for them.
    if (expects(first->terms, rank_)) throw_if_failure(decide(failure));
    throw_if_failure(failure);
}

std::string Gathering::decide(const std::string& decision) {
    const std::string decided = store_.compare_set(prefix_ + "table", "", decision);
    // PyTorch's store wakes nobody when a key comes into being by compare_set.
    if (decided == decision) store_.set(prefix_ + "table", decision);
    return decided;
}

void Gathering::throw_if_failure(const std::string& decision) const {
    if (decision.size() < 2 || decision[0] != '!') return;
    const std::size_t end = std::min(decision.find('\n'), decision.size());
    const auto culprits = decode_ranks(std::string_view(decision).substr(2, end - 2));
    if (!culprits) fail(Errc::malformed, "what the store has under " + prefix_ + "table is no decision");
    const auto code = decision[1] == kLate ? CollectiveErrorCode::timed_out : CollectiveErrorCode::mismatch;
    const std::string text = decision.substr(std::min(end + 1, decision.size()));
    throw CollectiveError(code, fmt::format("{}: {}", names_.operation, text), *culprits, names_.operation);
}

std::vector<int> Gathering::missing() {
    std::vector<int> missing;
    for (const int rank : expected_) {
        if (!store_.check_keys({key("member", rank)})) missing.push_back(rank);
    }
    return missing;
}

void Gathering::make_table() {
    std::vector<Member> members;
    for (const int rank : expected_) {
        auto member = parse_member(store_.get(key("member", rank), kStoredTimeout));
        if (!member)
            fail(Errc::malformed, "what the store has under " + key("member", rank) + " is no member");
        members.push_back(std::move(*member));
    }
    decide(table_text(random_nonce(), members));
}

std::string Gathering::await_decision(Deadline deadline) {
    const std::string table = prefix_ + "table";
    try {
        return store_.get(table, time_until(deadline));
    } catch (const boost::system::system_error& error) {
        if (error.code() != make_error_code(Errc::timed_out)) throw;
    }
    const std::vector<int> late = missing();
    // The last to come has died before it could decide.
    if (late.empty()) {
        make_table();
        return store_.get(table, kStoredTimeout);
    }
    return decide(encode_failure(
        kLate, late,
        fmt::format("of {} {} these have not come in time (CommunicatorOptions::join_timeout): {}",
                    expected_.size(), names_.members, list_of_ranks(late))));
}

bool ThreadWorkState::wait_until(Deadline deadline) {
    std::unique_lock lock(mutex_);
    // As long as this has not ended the executor is there.
    while (deadline == Deadline::max() && !ended_ && executor_.help(lock)) lock.lock();
    const auto has_ended = [&] { return ended_; };
    if (deadline != Deadline::max()) return changed_.wait_until(lock, deadline, has_ended);
    changed_.wait(lock, has_ended);
    return true;
}

Executor::Executor(std::unique_ptr<Backend> backend, int world_size)
    : backend_(std::move(backend)), world_size_(world_size) {}

void Executor::send_by(std::unique_ptr<Transfers> transfers) { transfers_ = std::move(transfers); }

Executor::~Executor() {
    // Also one that a waiting thread carries out comes before it.
    await_turn(next_++, Deadline::max());
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !served_; });
}

bool Executor::await_turn(Ticket ticket, Deadline deadline) {
    const auto has_come = [&] { return serving_ == ticket; };
    if (has_come()) return true;
    ++waiting_;
    std::unique_lock lock(mutex_);
    if (deadline == Deadline::max()) {
        changed_.wait(lock, has_come);
    } else {
        changed_.wait_until(lock, deadline, has_come);
    }
    --waiting_;
    return has_come();
}

void Executor::pass_on(Ticket ticket) {
    serving_ = ticket + 1;
    if (waiting_ == 0) return;
    // Who has looked and does not sleep yet would miss it.
    { const std::lock_guard lock(mutex_); }
    changed_.notify_all();
}

void Executor::refuse_if_left(Operation operation) const {
    if (left_) refuse(operation, kFinalized);
}

void Executor::close(Messenger& messenger, Deadline deadline) {
    const Turn turn(*this, next_++);
    messenger.close(deadline);
}

std::vector<int> Executor::leave(Deadline deadline, Messenger* messenger) {
    const Ticket ticket = next_++;
    const bool in_time = await_turn(ticket, deadline);
    if (!in_time) backend_->abort(kStartedNotEnded);
    const Turn turn(*this, ticket);
    left_ = true;
    if (messenger != nullptr) messenger->close(deadline);
    if (!in_time) throw error_of(*backend_->verdict(), "finalize");
    return backend_->leave(deadline);
}

void Executor::run(const Task& task) {
    const Turn turn(*this, next_++);
    carry_out(task);
}

Work Executor::start(const Task& task) {
    if (backend_->on_device()) {
        refuse_parts(task);
        const Turn turn(*this, next_++);
        refuse_if_left(task.call.operation);
        return Work(backend_->start(task));
    }
    if (task.stream != nullptr) {
        refuse(task.call.operation, "a stream was given, but this communicator's backend is not nccl");
    }
    auto state = make_in_process<ThreadWorkState>(*this);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return started_.size() < kMaxStarted; });
    started_.push_back({task, state, next_++});
    const bool served = std::exchange(served_, true);
    lock.unlock();
    served ? changed_.notify_all() : run_beside([this] { serve(); });
    return Work(std::move(state));
}

void Executor::perform(const Started& started) {
    std::optional<CollectiveError> error;
    try {
        carry_out(started.task);
    } catch (const CollectiveError& failed) {
        error = failed;
    } catch (const std::exception& failed) {
        // The others have begun: they must not wait for this rank.
        backend_->abort(failed.what());
        error = CollectiveError(CollectiveErrorCode::system, failed.what());
    }
    started.state->end(std::move(error));
}

bool Executor::help(std::unique_lock<std::mutex>& waiter) {
    std::unique_lock lock(mutex_);
    if (started_.empty() || started_.front().ticket != serving_) return false;
    const Started first = std::move(started_.front());
    started_.pop_front();
    lock.unlock();
    waiter.unlock();
    perform(first);
    lock.lock();
    // Under the lock to the end: the executor is destroyed when the last turn is over and this is free.
    serving_ = first.ticket + 1;
    changed_.notify_all();
    return true;
}

void Executor::serve() {
    std::unique_lock lock(mutex_);
    const auto is_called = [this] { return stopping_ || !started_.empty(); };
    while (changed_.wait_for(lock, kLinger, is_called) && !started_.empty()) {
        const Started current = std::move(started_.front());
        started_.pop_front();
        lock.unlock();
        {
            const Turn turn(*this, current.ticket);
            perform(current);
        }
        lock.lock();
        changed_.notify_all();
    }
    served_ = false;
    changed_.notify_all();
}

void Executor::carry_out(const Task& task) {
    refuse_if_left(task.call.operation);
    const Call& call = task.call;
    if (transfers_ && is_point_to_point(call.operation)) return transfers_->run(task);
    if (backend_->on_device()) {
        refuse_parts(task);
        return backend_->run(task);
    }
    if (call.operation == Operation::all_reduce && task.parts)
        return reduce_parts(task, scratch(kMostJoined), [this](const Task& one) { carry_out(one); });
    const bool scales = is_reduction(call.operation) && call.reduce == ReduceOp::premul_sum;
    if (!scales && !task.parts) return backend_->run(task);
    const Task ready = agreed(task);
    backend_->run(scales && ready.call.count > 0 ? multiplied(ready) : ready);
}

Task Executor::agreed(Task task) {
    if (!task.parts || !task.parts->counted) return task;
    const std::vector<std::uint64_t> own = counts_of(*task.parts);
    std::vector<std::uint64_t> all(own.size() * static_cast<std::size_t>(world_size_));
    const Call call{Operation::parts, DataType::u64, ReduceOp::sum, static_cast<int>(task.call.operation),
                    own.size()};
    backend_->run({call, own.data(), all.data(), 1, nullptr, nullptr, task.timeout});
    task.call.count = agreed_count(task.call, all, world_size_);
    return task;
}

std::byte* Executor::scratch(std::size_t bytes) {
    try {
        if (scratch_.size() < bytes) scratch_.resize(bytes);
    } catch (const std::bad_alloc&) {
        // The others have begun: they must not wait for this rank. Its own call throws this then, too.
        backend_->abort(fmt::format("no memory for {} bytes", bytes));
        return nullptr;
    }
    return scratch_.data();
}

Task Executor::multiplied(Task task) {
    const bool whole = task.call.operation == Operation::reduce_scatter;
    const std::size_t parts = whole ? static_cast<std::size_t>(world_size_) : 1;
    void* place = task.out;
    if (task.call.operation != Operation::all_reduce) {
        place = scratch(parts * bytes_of(task));
        if (place == nullptr) return task;
    }
    const Task from = task;
    task.in = place;
    task.scalar = 1;
    if (!from.parts) {
        scale(task.call.type, place, from.in, parts * task.call.count, from.scalar);
        return task;
    }
    Parts moved = *from.parts;
    for (std::size_t i = 0; i < moved.in.size(); ++i) {
        void* to = scratch_.data() + i * bytes_of(task);
        scale(task.call.type, to, moved.in[i].data, moved.in[i].count, from.scalar);
        moved.in[i].data = to;
    }
    task.parts = std::make_shared<const Parts>(std::move(moved));
    return task;
}

MeetingRoom MeetingRoom::later() const {
    MeetingRoom room;
    room.host = host;
    room.rank_0_hosts = rank_0_hosts;
    room.reopen = reopen;
    return room;
}

void MeetingRoom::leave(std::chrono::milliseconds timeout) {
    try {
        if (departure) departure->say_gone();
        if (departure && host) departure->wait_for_others(timeout);
    } catch (const boost::system::system_error&) {
        // The store is gone before us; then nobody waits for this goodbye either.
    }
    departure.reset();
    store.reset();
    host.reset();
}

void EndWatch::add(Call ended) {
    const std::lock_guard lock(mutex_);
    if (!told_) return calls_.push_back(std::move(ended));
    run_beside([ended = std::move(ended), status = *told_] { ended(status); });
}

void EndWatch::tell(const Status& status) {
    const std::lock_guard lock(mutex_);
    if (told_) return;
    told_ = status;
    for (Call& ended : calls_) run_beside([ended = std::move(ended), status] { ended(status); });
    calls_.clear();
}

Status Session::status() const {
    const auto verdict = executor ? executor->verdict() : std::nullopt;
    return verdict ? Status(CollectiveError(verdict->code, verdict->text, verdict->culprits)) : Status();
}

Session::~Session() {
    const bool healthy = executor && !executor->ended();
    // After what was started.
    if (messenger && executor) executor->close(*messenger, Deadline::clock::now() + options.leave_timeout);
    end_executor();
    if (messenger) messenger->disconnect();
    room.leave(healthy ? options.leave_timeout : std::chrono::milliseconds(0));
}

void Session::end_executor() {
    std::unique_ptr<Executor> ending;  // outlives the lock
    const std::lock_guard lock(end_mutex);
    end_watch->tell(status());
    ending = std::move(executor);
    lifeline = nullptr;
}

void Session::finalize(std::chrono::milliseconds timeout) {
    if (ending.exchange(true)) refuse("finalize", kFinalized);
    const Deadline deadline = Deadline::clock::now() + timeout;
    std::vector<int> missing;
    std::exception_ptr failure;
    try {
        missing = executor->leave(deadline, messenger.get());
    } catch (const CollectiveError&) {
        failure = std::current_exception();
    }
    // This one counts, too.
    for (int others = calls; others > 1; others = calls) calls.wait(others);
    end_executor();
    if (messenger) messenger->disconnect();
    const bool healthy = !failure && missing.empty();
    room.leave(healthy ? time_until(deadline) : std::chrono::milliseconds(0));
    if (failure) std::rethrow_exception(failure);
    if (missing.empty()) return;
    throw CollectiveError(CollectiveErrorCode::timed_out,
                          fmt::format("finalize: these ranks have not come to theirs within {} ms: {}",
                                      timeout.count(), list_of_ranks(missing)),
                          missing, "finalize");
}

}  // namespace detail
}  // namespace ddprun
