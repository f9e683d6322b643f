#include "rendezvous/store/store_service.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <malloc.h>
#include <sys/socket.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <new>

#include "rendezvous/system/resource_limits.hpp"

namespace ddprun {
inline namespace base {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// So many requests of one connection are served in one go, before the others have their turn.
constexpr int kRequestsPerTurn = 256;
// While a connection has more replies than this to take, its further requests wait.
constexpr std::size_t kReplyHighWater = std::size_t{256} << 10;
// A request that is under way must be complete in this time, or bring at least so much of it.
constexpr std::size_t kLeastProgress = std::size_t{1} << 20;
// Where memory is short, a connection that holds less than this is left alone.
constexpr std::size_t kSmallHolder = std::size_t{1} << 20;
// The store may hold this part of the memory that there is, and so may requests and replies.
constexpr std::size_t kMemoryShare = 8;
// When so much less is held than before, the system gets it back.
constexpr std::size_t kWorthTrimming = std::size_t{64} << 20;
// So many batches are served before the executor's other work has its turn.
constexpr int kBatchesPerWait = 8;

}  // namespace

StoreService::StoreService(asio::any_io_executor executor, const StoreLimits& limits, Remark on_remark)
    : executor_(std::move(executor)), limits_(limits), state_(limits.stored), ready_(executor_) {
    on_remark_.swap(on_remark);
}

std::shared_ptr<StoreService> StoreService::make(asio::any_io_executor executor, const StoreLimits& limits,
                                                 Remark on_remark) {
    const std::shared_ptr<StoreService> kept(
        new StoreService(std::move(executor), limits, std::move(on_remark)));
    return {kept.get(), [kept](StoreService* service) { service->stop(); }};
}

// An allocation that fails costs the connection that wanted it, not the job.
template <typename Work>
void StoreService::within_memory(StoreConnection& connection, Work work) {
    try {
        work();
    } catch (const std::bad_alloc&) {
        refuse(connection, "no memory left");
        account(connection);
    }
}

std::shared_ptr<StoreConnection> StoreService::open(asio::ip::tcp::socket socket,
                                                    std::string_view first_bytes) {
    if (is_full(connections_.size() - piped_.size(), limits_.connections)) return nullptr;
    int fd = socket.release();
    auto connection = std::make_shared<StoreConnection>(++last_id_, fd, executor_);
    ready_.add(fd, connection->id, connection->events);
    connections_.emplace(connection->id, connection.get());
    newcomers_.insert(connection->id);
    if (newcomers_.size() > limits_.newcomers)
        refuse(*connections_.at(*newcomers_.begin()), "too many that ask for nothing");
    serve(*connection, first_bytes);
    finish_batch();
    arm();
    return connection;
}

asio::awaitable<void> StoreService::serve(asio::ip::tcp::socket socket, std::string first_bytes) {
    // The arguments are the coroutine's own, which may begin when the owner's pointer is gone.
    return [](std::shared_ptr<StoreService> self, asio::ip::tcp::socket peer,
              std::string begun) -> asio::awaitable<void> {
        const std::shared_ptr<StoreConnection> connection = self->open(std::move(peer), begun);
        if (!connection) co_return;
        struct Removal {
            StoreService& service;
            StoreConnection& connection;
            ~Removal() { service.remove(connection); }
        } removal{*self, *connection};
        if (connection->is_open()) co_await connection->over.async_wait(asio::as_tuple(asio::use_awaitable));
    }(shared_from_this(), std::move(socket), std::move(first_bytes));
}

bool StoreService::is_full(std::size_t clients, std::size_t most) {
    if (counters_.accepted++ == 0) stay_within(memory_limit() / kMemoryShare);
    if (!stopped_ && clients < most) return false;
    ++counters_.refused;
    counters_.last_refusal = "too many connections";
    return true;
}

void StoreService::serve(StoreConnection& connection, std::string_view bytes) {
    within_memory(connection, [&] {
        connection.decoder.feed(bytes);
        const bool comes_later = connection.unfinished || connection.draining;
        if (!comes_later) serve_turn(connection);
    });
}

void StoreService::remove(StoreConnection& connection) {
    close(connection);
    account(connection);
    connections_.erase(connection.id);
    state_.remove(connection.id);
}

Outbox& StoreService::outbox(ConnectionId id) {
    StoreConnection& connection = *connections_.find(id)->second;
    mark_dirty(connection);
    return connection.outbox;
}

bool StoreService::has_room(ConnectionId id, std::size_t bytes) {
    StoreConnection& connection = *connections_.find(id)->second;
    mark_dirty(connection);
    const bool fits = connection.outbox.pending() + bytes <= limits_.pending_output;
    if (!fits) connection.overflown = true;
    return fits && connection.is_open();
}

void StoreService::clear() {
    for (auto& [id, connection] : connections_) close(*connection);
    state_.clear();
}

void StoreService::stop() {
    stopped_ = true;
    clear();
}

StoreService::Counters StoreService::counters() const {
    Counters counters = counters_;
    counters.connections = connections_.size();
    counters.keys = state_.key_count();
    counters.bytes = state_.bytes();
    return counters;
}

// It is called for the first connection: most jobs have none, and should not wait for what the system says.
void StoreService::stay_within(std::size_t bytes) {
    limits_.stored = std::min(limits_.stored, bytes);
    limits_.buffered = std::min(limits_.buffered, bytes);
    state_.limit(limits_.stored);
}

// How bytes become replies:
// 1. One epoll set watches all sockets; a wait for it ends when any of them is ready (arm).
// 2. A batch begins: each ready socket is read once, and its complete requests are carried out, a turn's
//    worth; whose requests are not used up then is noted for the next turn (serve_turn, serve_later).
// 3. A request puts replies into outboxes, also into those of other connections that have waited; each outbox
//    that got something makes its connection dirty (mark_dirty). Nothing is sent yet, so a reply of many
//    parts goes out in one call.
// 4. The batch ends: every dirty connection sends what its socket takes. A full socket is asked for EPOLLOUT
//    and read no more, so who does not take replies cannot ask for more (finish_batch, drain_later,
//    ask_for_more).
// 5. Connections close at any time, but are removed between batches only: dirty_ points to them.
void StoreService::arm() {
    if (armed_ || ready_.empty()) return;
    armed_ = true;
    ready_.async_wait([service = shared_from_this()] {
        service->armed_ = false;
        service->serve_ready();
        service->arm();
    });
}

void StoreService::serve_ready() {
    for (int batch = 0; batch < kBatchesPerWait; ++batch) {
        std::span<const epoll_event> events = ready_.take();
        for (const epoll_event& event : events) {
            auto found = connections_.find(event.data.u64);
            if (found == connections_.end()) continue;
            within_memory(*found->second, [&] { serve_event(*found->second, event.events); });
        }
        finish_batch();
        // Only a busy store can expect more so soon.
        if (events.size() < 2) break;
    }
}

void StoreService::serve_event(StoreConnection& connection, std::uint32_t events) {
    if (!connection.is_open()) return;
    if (connection.draining) {
        drained(connection);
    } else if ((events & EPOLLIN) != 0 && !connection.unfinished) {
        receive(connection);
    } else if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
        close(connection);
    }
}

void StoreService::receive(StoreConnection& connection) {
    std::span<char> room = connection.decoder.prepare();
    ssize_t count = ::recv(connection.fd.get(), room.data(), room.size(), MSG_DONTWAIT);
    if (count > 0) {
        connection.received += static_cast<std::size_t>(count);
        connection.decoder.commit(static_cast<std::size_t>(count));
        serve_turn(connection);
    } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
        close(connection);
    }
}

// Serves the requests that are complete, a turn's worth.
void StoreService::serve_turn(StoreConnection& connection) {
    Refusal refusal;
    for (int served = 0; !refusal; ++served) {
        if (served == kRequestsPerTurn || connection.outbox.pending() > kReplyHighWater) {
            serve_later(connection);
            break;
        }
        auto status = connection.decoder.next(request_);
        if (status == RequestDecoder::Status::incomplete) break;
        if (status == RequestDecoder::Status::refused) {
            refusal = connection.decoder.refusal();
        } else {
            ++counters_.requests;
            if (++connection.requests == 1) newcomers_.erase(connection.id);
            refusal = state_.apply(connection.id, request_, *this);
        }
    }
    if (refusal) {
        // Replies that it was owed before go out first.
        send(connection);
        refuse(connection, *refusal);
    }
    account(connection);
    watch_progress(connection);
}

void StoreService::serve_later(StoreConnection& connection) {
    if (connection.unfinished) return;
    connection.unfinished = true;
    mark_dirty(connection);
    unfinished_.push_back(connection.id);
    if (unfinished_.size() > 1) return;
    asio::post(executor_, [service = shared_from_this()] { service->serve_unfinished(); });
}

void StoreService::serve_unfinished() {
    for (ConnectionId id : std::exchange(unfinished_, {})) {
        auto found = connections_.find(id);
        if (found == connections_.end()) continue;
        StoreConnection& connection = *found->second;
        connection.unfinished = false;
        // While it is draining, the socket's next event brings it here again.
        if (connection.is_open() && !connection.draining)
            within_memory(connection, [&] { serve_turn(connection); });
        if (connection.is_open()) mark_dirty(connection);
    }
    finish_batch();
}

void StoreService::mark_dirty(StoreConnection& connection) {
    if (connection.dirty) return;
    connection.dirty = true;
    dirty_.push_back(&connection);
}

// Sends the replies of the batch on all connections; what a socket does not take goes out when it can.
void StoreService::finish_batch() {
    for (StoreConnection* connection : dirty_) {
        connection->dirty = false;
        if (!connection->draining) send(*connection);
        if (connection->overflown || connection->outbox.pending() > limits_.pending_output)
            refuse(*connection, "replies not taken");
        account(*connection);
        ask_for_more(*connection);
    }
    dirty_.clear();
    relieve();
    give_back();
}

void StoreService::send(StoreConnection& connection) {
    switch (connection.send_turn()) {
        case StoreConnection::Sent::all: break;
        case StoreConnection::Sent::rest_later: return drain_later(connection);
        case StoreConnection::Sent::broken: return close(connection);
    }
}

void StoreService::drain_later(StoreConnection& connection) {
    connection.draining = true;
    connection.drain_deadline.expires_after(limits_.stalled_output);
    connection.drain_deadline.async_wait(
        [service = shared_from_this(), self = connection.shared_from_this()](error_code error) {
            if (!error && self->draining) service->refuse(*self, "replies not taken in time");
        });
}

void StoreService::drained(StoreConnection& connection) {
    connection.draining = false;
    connection.drain_deadline.cancel();
    mark_dirty(connection);
    // Requests may be waiting since the replies piled up.
    serve_later(connection);
}

void StoreService::ask_for_more(StoreConnection& connection) {
    if (!connection.is_open()) return;
    if (connection.pipe) {
        const bool waits = connection.unfinished || connection.draining;
        if (!waits && connection.has_finished) return close(connection);
        if (!waits && connection.fed > 0) connection.pipe->served(std::exchange(connection.fed, 0));
        return;
    }
    std::uint32_t wanted = connection.unfinished ? 0U : EPOLLIN;
    if (connection.draining) wanted = EPOLLOUT;
    if (wanted == connection.events) return;
    connection.events = wanted;
    ready_.change(connection.fd.get(), connection.id, wanted);
}

void StoreService::account(StoreConnection& connection) {
    if (!connection.is_open()) {
        connection.outbox.clear();
        connection.decoder = RequestDecoder();
    }
    const std::size_t now = connection.buffered();
    buffered_ += now - connection.accounted;
    connection.accounted = now;
}

// Too much memory is held for requests and replies: whoever holds most goes first.
void StoreService::relieve() {
    while (buffered_ + state_.orphaned_bytes() > limits_.buffered) {
        StoreConnection* largest = nullptr;
        for (const auto& [id, connection] : connections_) {
            const bool is_larger = largest == nullptr || connection->holds() > largest->holds();
            if (connection->is_open() && is_larger) largest = connection;
        }
        if (largest == nullptr || largest->holds() < kSmallHolder) return;
        refuse(*largest, "too much memory for buffers");
        account(*largest);
    }
}

// The allocator keeps what was freed, and would do so to the job's end.
void StoreService::give_back() {
    const std::size_t now = buffered_ + state_.bytes() + state_.orphaned_bytes();
    peak_ = std::max(peak_, now);
    if (peak_ - now < kWorthTrimming) return;
    peak_ = now;
    ::malloc_trim(0);
}

// While a request is under way it must go on, or others wait for the memory that it takes.
void StoreService::watch_progress(StoreConnection& connection) {
    if (connection.progressing || !connection.is_open() || !connection.decoder.in_request()) return;
    connection.progressing = true;
    connection.progress_deadline.expires_after(limits_.request_progress);
    connection.progress_deadline.async_wait(
        [service = shared_from_this(), self = connection.shared_from_this(), requests = connection.requests,
         received = connection.received](error_code error) {
            if (error || !self->is_open()) return;
            self->progressing = false;
            // Its turn has not come yet, or its replies are not taken: that is looked at elsewhere.
            const bool waits_for_us = self->unfinished || self->draining;
            const bool goes_on =
                waits_for_us || self->requests > requests || self->received - received >= kLeastProgress;
            if (!self->decoder.in_request()) return;
            goes_on ? service->watch_progress(*self) : service->refuse(*self, "request not complete in time");
        });
}

void StoreService::refuse(StoreConnection& connection, std::string_view why) {
    if (!connection.is_open()) return;
    ++counters_.refused;
    counters_.last_refusal = why;
    if (const auto tell = why == kStoreFull ? std::exchange(on_remark_, {}) : Remark())
        tell("the store is full, whoever stores more is closed: " + state_.description());
    close(connection);
}

void StoreService::close(StoreConnection& connection) {
    if (!connection.is_open()) return;
    if (connection.pipe) {
        end_pipe(connection);
    } else {
        newcomers_.erase(connection.id);
        ready_.remove(connection.fd.get());
        connection.fd.reset();
    }
    connection.cancel_deadlines();
    connection.over.cancel();
    if (ready_.empty()) ready_.cancel();
}

ConnectionId StoreService::attach(std::shared_ptr<StorePipe> pipe) {
    if (is_full(piped_.size(), limits_.pipes)) return kNoConnection;
    auto connection = std::make_shared<StoreConnection>(++last_id_, std::move(pipe), executor_);
    connections_.emplace(connection->id, connection.get());
    piped_.emplace(connection->id, connection);
    return connection->id;
}

void StoreService::feed(ConnectionId id, std::string_view bytes) {
    const auto found = piped_.find(id);
    if (found == piped_.end() || !found->second->is_open()) return;
    StoreConnection& connection = *found->second;
    connection.received += bytes.size();
    connection.fed += bytes.size();
    mark_dirty(connection);
    serve(connection, bytes);
    finish_batch();
}

void StoreService::resume(ConnectionId id) {
    const auto found = piped_.find(id);
    if (found == piped_.end() || !found->second->draining) return;
    drained(*found->second);
    finish_batch();
}

void StoreService::finish(ConnectionId id) {
    const auto found = piped_.find(id);
    if (found == piped_.end()) return;
    found->second->has_finished = true;
    mark_dirty(*found->second);
    finish_batch();
}

void StoreService::detach(ConnectionId id) {
    const auto found = piped_.find(id);
    if (found == piped_.end()) return;
    const std::shared_ptr<StoreConnection> connection = found->second;
    piped_.erase(found);
    // It is its owner that ends the conversation, and need not be told.
    connection->pipe.reset();
    connection->cancel_deadlines();
    remove(*connection);
}

// A pipe that ended in the middle of a batch is removed behind it.
void StoreService::end_pipe(StoreConnection& connection) {
    std::exchange(connection.pipe, nullptr)->ended();
    ended_pipes_.push_back(connection.id);
    if (ended_pipes_.size() > 1) return;
    asio::post(executor_, [service = shared_from_this()] { service->remove_ended(); });
}

void StoreService::remove_ended() {
    for (const ConnectionId id : std::exchange(ended_pipes_, {})) detach(id);
}

}  // namespace base
}  // namespace ddprun
