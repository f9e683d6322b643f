#include "tests/support/raw_client.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <utility>

#include "rendezvous/net/connect.hpp"
#include "rendezvous/store/wire.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
RawClient::RawClient(std::uint16_t port) : fd_(connect_tcp({"127.0.0.1", port}, kHangGuard)) {}
RawClient::RawClient(RawClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

RawClient::~RawClient() {
    if (fd_ >= 0) ::close(fd_);
}

bool RawClient::await(short events) const {
    pollfd event{fd_, events, 0};
    return ::poll(&event, 1, std::chrono::milliseconds(kHangGuard).count()) > 0;
}

void RawClient::send(std::string_view bytes) {
    while (!bytes.empty()) {
        if (!await(POLLOUT)) throw std::runtime_error("the server takes no more bytes");
        ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count < 0 && errno == EAGAIN) continue;
        if (count < 0) throw std::runtime_error("the connection is closed to sending");
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
}

bool RawClient::send_as_taken(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (count < 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
}

void RawClient::send_slowly(std::string_view bytes) {
    for (char byte : bytes) send({&byte, 1});
}

std::string RawClient::receive(std::size_t size) {
    std::string bytes(size, '\0');
    std::size_t held = 0;
    while (held < size) {
        if (!await(POLLIN)) throw std::runtime_error("no answer after " + std::to_string(held) + " bytes");
        ssize_t count = ::recv(fd_, bytes.data() + held, size - held, 0);
        if (count <= 0) throw std::runtime_error("closed after " + std::to_string(held) + " bytes");
        held += static_cast<std::size_t>(count);
    }
    return bytes;
}

std::string RawClient::receive_until_closed() {
    std::string bytes;
    char buffer[4096];
    for (;;) {
        if (!await(POLLIN)) throw std::runtime_error("the connection is not closed");
        ssize_t count = ::recv(fd_, buffer, sizeof buffer, 0);
        if (count <= 0) return bytes;
        bytes.append(buffer, static_cast<std::size_t>(count));
    }
}

bool RawClient::is_silent() const {
    pollfd event{fd_, POLLIN, 0};
    return ::poll(&event, 1, 0) == 0;
}

void RawClient::finish_sending() { ::shutdown(fd_, SHUT_WR); }

std::string wire_string(std::string_view text) {
    std::string bytes;
    put_string(bytes, text);
    return bytes;
}

std::string wire_i64(std::int64_t value) {
    std::string bytes;
    put_i64(bytes, value);
    return bytes;
}

std::string wire_u32(std::uint32_t value) {
    std::string bytes;
    put_u32(bytes, value);
    return bytes;
}

std::string from_hex(std::string_view text) {
    std::string bytes;
    for (std::size_t i = 0; i < text.size();) {
        if (text[i] == ' ') {
            ++i;
            continue;
        }
        bytes.push_back(static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
        i += 2;
    }
    return bytes;
}

}  // namespace ddprun
