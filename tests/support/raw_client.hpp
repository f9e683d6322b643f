// RawClient: a socket that says exactly what a test tells it to, for protocol tests.
//
// Connects to a port of this host; blocking, and every wait ends after a generous bound with a failure that
// says what was waited for. Owned by one test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

class RawClient {
  public:
    explicit RawClient(std::uint16_t port);
    RawClient(RawClient&& other) noexcept;
    RawClient& operator=(RawClient&&) = delete;
    ~RawClient();

    void send(std::string_view bytes);
    // As much of it as the other side takes before it closes the connection; false: not all.
    bool send_as_taken(std::string_view bytes);
    // One segment for each byte, as far as the kernel keeps them apart.
    void send_slowly(std::string_view bytes);
    // Exactly this many bytes.
    std::string receive(std::size_t size);
    // Whatever comes until the other side closes the connection.
    std::string receive_until_closed();
    // True if nothing can be read now.
    bool is_silent() const;
    // Ends our sending side only.
    void finish_sending();
    int fd() const { return fd_; }

  private:
    bool await(short events) const;

    int fd_ = -1;
};

// A shorthand for protocol tests: length-prefixed text, and integers as they are on the wire.
std::string wire_string(std::string_view text);
std::string wire_i64(std::int64_t value);
std::string wire_u32(std::uint32_t value);
// "00 CE f7" -> three bytes. Blanks are ignored.
std::string from_hex(std::string_view text);

}  // namespace ddprun
