// Opcode, Request and RequestDecoder are the store's wire protocol, in both dialects that PyTorch's clients
// speak. Pure: bytes in, requests out, and back.
//
//   request  = opcode (one byte) + its fields, in the order of the table below; no framing, no request ids
//   integer  = little-endian, unpadded            string = u64 length + bytes
//   keys     = u64 count + that many strings      pairs  = u64 count + that many (key, value)
//
//   modern  legacy  request      fields                     reply
//      0      -     validate     u32 0x3C85F7CE             none; must open a modern connection
//      1      0     set          key, value                 none
//      2      1     compare_set  key, expected, desired     string: the value now stored (or `expected`)
//      3      2     get          key                        string
//      4      3     add          key, i64 delta             i64 sum
//      5      4     check        keys                       u8 0 all exist, 1 not
//      6      5     wait         keys                       u8 0, once all exist
//      7      6     num_keys     -                          i64
//      8      8     delete_key   key                        i64 0 or 1
//      9      -     append       key, value                 none
//     10      -     multi_get    keys                       one string per key
//     11      -     multi_set    pairs                      none
//     12      -     cancel_wait  -                          u8 1
//     13      -     ping         u32 nonce                  u32 nonce
//     14      -     queue_push   key, value                 none
//     15      -     queue_pop    key                        i64 length before; if > 0 then a string
//     16      -     queue_len    key                        i64
//     17      -     list_keys    -                          keys
//     18      -     barrier      key, i64 world size        u8 0, once that many have come
//      -      7     watch_key    key                        u8 3; then events: u8 kind, key, old, new value
//
// The dialect belongs to the connection: a modern client's first five bytes are validate's, and a legacy
// client can never send those (they would announce a key of a gigabyte). The decoded requests do not depend
// on how TCP cut the stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace base {

enum class Dialect { modern, legacy };

// Opcode has the modern numbers; watch_key exists in the legacy dialect only and has a number of our own.
enum class Opcode : std::uint8_t {
    validate = 0,
    set = 1,
    compare_set = 2,
    get = 3,
    add = 4,
    check = 5,
    wait = 6,
    num_keys = 7,
    delete_key = 8,
    append = 9,
    multi_get = 10,
    multi_set = 11,
    cancel_wait = 12,
    ping = 13,
    queue_push = 14,
    queue_pop = 15,
    queue_len = 16,
    list_keys = 17,
    barrier = 18,
    watch_key = 19,
};
inline constexpr std::size_t kOpcodeCount = 20;

// kMaxKeyLength and the other limits are checked as soon as a length has arrived, before anything is
// allocated for it. PyTorch's own server allows 8 KiB, 8 MiB and 131072.
inline constexpr std::size_t kMaxKeyLength = std::size_t{64} << 10;
inline constexpr std::size_t kMaxValueLength = std::size_t{64} << 20;
inline constexpr std::size_t kMaxKeysPerCommand = 131072;
// kMaxCommandLength: the bytes of the longest command, a compare_set with the largest values. A connection
// holds no more unparsed bytes.
inline constexpr std::size_t kMaxCommandLength = 2 * kMaxValueLength + (std::size_t{1} << 20);

inline constexpr std::uint32_t kValidateMagic = 0x3C85F7CE;

// kReadyReply and those below are single-byte replies and the kinds of watch events.
inline constexpr char kReadyReply = 0;
inline constexpr char kNotReadyReply = 1;
inline constexpr char kWaitCancelledReply = 1;
inline constexpr char kWatchingReply = 3;
inline constexpr char kUpdatedEvent = 0;
inline constexpr char kCreatedEvent = 1;
inline constexpr char kDeletedEvent = 2;

// Request is one request. The views point into the decoder's buffer (or the client's arguments); fields that
// a request does not have are empty.
struct Request {
    Opcode opcode = Opcode::validate;
    std::string_view key;
    std::string_view value;    // for compare_set: the expected value
    std::string_view desired;  // compare_set only
    std::int64_t number = 0;   // magic, delta, nonce, world size
    std::vector<std::string_view> keys;
    std::vector<std::string_view> values;  // multi_set only, beside `keys`
};

// Says whether a conversation in either dialect can begin with this byte, for a port that serves other
// protocols too.
constexpr bool is_store_first_byte(std::uint8_t byte) { return byte <= 8; }

// Appends the request's bytes. The opcode must exist in the dialect.
void encode_request(std::string& out, Dialect dialect, const Request& request);

void put_u32(std::string& out, std::uint32_t value);
void put_u64(std::string& out, std::uint64_t value);
void put_i64(std::string& out, std::int64_t value);
void put_string(std::string& out, std::string_view value);
std::uint32_t load_u32(const char* bytes);
std::uint64_t load_u64(const char* bytes);
std::int64_t load_i64(const char* bytes);

// RequestDecoder turns one connection's byte stream into requests. The owner reads the socket into prepare(),
// calls commit() with what came, then takes requests until next() has no more. Work and memory are
// proportional to the bytes received, however they are cut.
class RequestDecoder {
  public:
    enum class Status {
        ready,       // the request is filled in; its views hold until the next call of prepare() or next()
        incomplete,  // more bytes are needed
        refused,     // the stream is malformed or over a limit: close it; refusal() says why
    };

    // Returns room to read into, never empty.
    std::span<char> prepare();
    void commit(std::size_t count);
    // Appends bytes that were read elsewhere, as prepare() and commit() do.
    void feed(std::string_view bytes);

    Status next(Request& request);

    std::string_view refusal() const { return refusal_; }
    // Returns the dialect, once the first bytes tell.
    std::optional<Dialect> dialect() const { return dialect_; }
    // Says whether a first request is complete: from then on the peer is a store client.
    bool identified() const { return identified_; }
    // Says whether some, but not all, bytes of a request are here.
    bool in_request() const { return begin_ != end_; }
    std::size_t capacity() const { return capacity_; }

  private:
    struct Span {
        std::size_t offset = 0;  // from the start of the command
        std::size_t size = 0;
    };

    Status refuse(std::string_view why);
    Status detect_dialect();
    Status read_opcode();
    Status read_fields();
    Status read_number(std::size_t size);
    Status read_string(std::size_t limit);
    Status read_strings(bool pairs);
    void finish(Request& request);
    const char* command() const { return buffer_.get() + begin_; }
    std::size_t available() const { return end_ - begin_; }

    std::unique_ptr<char[]> buffer_;
    std::size_t capacity_ = 0;
    std::size_t begin_ = 0;  // the current command's first byte
    std::size_t end_ = 0;    // after the last byte received

    std::optional<Dialect> dialect_;
    bool identified_ = false;
    std::string_view refusal_;

    // has_opcode_ and the members below are the command under way: they survive until more bytes come.
    bool has_opcode_ = false;
    Opcode opcode_ = Opcode::validate;
    std::size_t field_ = 0;   // how many fields of the layout are complete
    std::size_t cursor_ = 0;  // bytes of the command already understood
    std::optional<std::size_t> strings_left_;
    std::int64_t number_ = 0;
    std::vector<Span> spans_;
};

}  // namespace base
}  // namespace ddprun
