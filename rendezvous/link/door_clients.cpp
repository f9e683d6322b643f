#include "rendezvous/link/door_clients.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ddprun::inline job {
namespace {

// So many batches are served before the executor's other work has its turn.
constexpr int kDoorBatches = 8;

}  // namespace

DoorClients::DoorClients(const boost::asio::any_io_executor& executor, DoorFrameSink& sink)
    : sink_(sink), ready_(executor), bytes_(std::make_unique<char[]>(kMaxDoorData)) {}

DoorClients::~DoorClients() { clear(); }

void DoorClients::add(OwnedDescriptor socket) {
    const Number number = ++last_;
    Client& client = clients_.emplace(number, std::move(socket)).first->second;
    client.events = EPOLLIN;
    ready_.add(client.fd.get(), number, client.events);
    put_door_frame(sink_.text(), DoorFrameKind::open, number);
    arm();
}

void DoorClients::clear() {
    for (const auto& [number, client] : clients_) ready_.remove(client.fd.get());
    clients_.clear();
    held_.clear();
    frames_ = {};
    last_ = 0;
    ready_.cancel();
}

void DoorClients::arm() {
    if (armed_ || ready_.empty()) return;
    armed_ = true;
    ready_.async_wait([this, life = std::weak_ptr(life_)] {
        if (life.expired()) return;
        armed_ = false;
        serve_ready();
        arm();
    });
}

void DoorClients::serve_ready() {
    for (int batch = 0; batch < kDoorBatches; ++batch) {
        const std::span<const epoll_event> events = ready_.take();
        for (const epoll_event& event : events) serve(static_cast<Number>(event.data.u64), event.events);
        // Only a busy door can expect more so soon.
        if (events.size() < 2) break;
    }
}

void DoorClients::serve(Number number, std::uint32_t events) {
    const auto found = clients_.find(number);
    if (found == clients_.end()) return;
    Client& client = found->second;
    if ((events & EPOLLOUT) != 0) return send_rest(number, client);
    if ((events & EPOLLIN) != 0 && (client.events & EPOLLIN) != 0) return receive(number, client);
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) leave(number);
}

void DoorClients::receive(Number number, Client& client) {
    if (!sink_.has_room()) {
        client.is_held = true;
        held_.push_back(number);
        return ask_for_more(number, client);
    }
    const std::size_t room = std::min(client.credit, kMaxDoorData);
    const ssize_t count = ::recv(client.fd.get(), bytes_.get(), room, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return leave(number);
    client.credit -= static_cast<std::size_t>(count);
    put_door_data(sink_.text(), number, {bytes_.get(), static_cast<std::size_t>(count)});
    ask_for_more(number, client);
}

void DoorClients::has_room() {
    for (const Number number : std::exchange(held_, {})) {
        const auto found = clients_.find(number);
        if (found == clients_.end()) continue;
        found->second.is_held = false;
        ask_for_more(number, found->second);
    }
}

bool DoorClients::take(std::string_view plain) {
    frames_.feed(plain);
    for (DoorFrame frame;;) {
        const DoorFrames::Status status = frames_.next(frame);
        if (status != DoorFrames::Status::ready) return status == DoorFrames::Status::incomplete;
        if (!take(frame)) return false;
    }
}

bool DoorClients::take(const DoorFrame& frame) {
    if (frame.kind == DoorFrameKind::open || frame.channel > last_) return false;
    const auto found = clients_.find(frame.channel);
    if (found == clients_.end()) return true;
    Client& client = found->second;
    if (frame.kind == DoorFrameKind::data) return deliver(frame.channel, client, frame.data);
    if (frame.kind == DoorFrameKind::credit) {
        client.credit += frame.count;
        if (client.credit > kDoorWindow) return false;
        ask_for_more(frame.channel, client);
    } else {
        client.has_ended = true;
        if (client.rest.empty()) hang_up(frame.channel);
    }
    return true;
}

bool DoorClients::deliver(Number number, Client& client, std::string_view data) {
    if (data.size() > client.window) return false;
    client.window -= data.size();
    const std::size_t sent = client.rest.empty() ? send(client, data) : 0;
    client.rest.append(data.substr(sent));
    give_back(number, client, sent);
    ask_for_more(number, client);
    return true;
}

// Returns how much its socket takes. A broken one takes all: it shows itself at the next event.
std::size_t DoorClients::send(Client& client, std::string_view data) {
    for (;;) {
        const ssize_t count = ::send(client.fd.get(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count >= 0) return static_cast<std::size_t>(count);
        if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
        if (errno != EINTR) return data.size();
    }
}

void DoorClients::send_rest(Number number, Client& client) {
    const std::size_t sent = send(client, std::string_view(client.rest).substr(client.rest_sent));
    client.rest_sent += sent;
    give_back(number, client, sent);
    if (client.rest_sent == client.rest.size()) {
        std::string().swap(client.rest);
        client.rest_sent = 0;
        if (client.has_ended) return hang_up(number);
    }
    ask_for_more(number, client);
}

void DoorClients::give_back(Number number, Client& client, std::size_t taken) {
    client.owed += taken;
    if (client.owed < kDoorCreditStep) return;
    put_door_frame(sink_.text(), DoorFrameKind::credit, number, static_cast<std::uint32_t>(client.owed));
    client.window += std::exchange(client.owed, 0);
}

void DoorClients::ask_for_more(Number number, Client& client) {
    const bool is_read = client.credit > 0 && !client.is_held && !client.has_ended;
    const std::uint32_t wanted = (is_read ? EPOLLIN : 0U) | (client.rest.empty() ? 0U : EPOLLOUT);
    if (wanted == client.events) return;
    client.events = wanted;
    ready_.change(client.fd.get(), number, wanted);
}

void DoorClients::hang_up(Number number) {
    const auto found = clients_.find(number);
    ready_.remove(found->second.fd.get());
    clients_.erase(found);
}

// The client has hung up.
void DoorClients::leave(Number number) {
    put_door_frame(sink_.text(), DoorFrameKind::close, number);
    hang_up(number);
}

}  // namespace ddprun::inline job
