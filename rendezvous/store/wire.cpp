#include "rendezvous/store/wire.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "rendezvous/base/check.hpp"

namespace ddprun {
inline namespace base {
namespace {

enum class Field : std::uint8_t { none, key, value, u32, i64, keys, pairs };
using Layout = std::array<Field, 3>;

// Each opcode has its fields in wire order.
constexpr std::array<Layout, kOpcodeCount> kLayouts = {{
    {Field::u32},                              // validate
    {Field::key, Field::value},                // set
    {Field::key, Field::value, Field::value},  // compare_set
    {Field::key},                              // get
    {Field::key, Field::i64},                  // add
    {Field::keys},                             // check
    {Field::keys},                             // wait
    {},                                        // num_keys
    {Field::key},                              // delete_key
    {Field::key, Field::value},                // append
    {Field::keys},                             // multi_get
    {Field::pairs},                            // multi_set
    {},                                        // cancel_wait
    {Field::u32},                              // ping
    {Field::key, Field::value},                // queue_push
    {Field::key},                              // queue_pop
    {Field::key},                              // queue_len
    {},                                        // list_keys
    {Field::key, Field::i64},                  // barrier
    {Field::key},                              // watch_key
}};

constexpr std::array<Opcode, 9> kLegacyOpcodes = {Opcode::set,      Opcode::compare_set, Opcode::get,
                                                  Opcode::add,      Opcode::check,       Opcode::wait,
                                                  Opcode::num_keys, Opcode::watch_key,   Opcode::delete_key};
constexpr std::uint8_t kLastModernOpcode = static_cast<std::uint8_t>(Opcode::barrier);

constexpr std::size_t kFirstCapacity = 4096;
constexpr std::size_t kLeastRoom = 2048;
// Buffers that grew beyond these go back to the system once their command is done.
constexpr std::size_t kKeptCapacity = std::size_t{64} << 10;
constexpr std::size_t kKeptSpans = 64;

std::uint64_t load_little_endian(const char* bytes, std::size_t size) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
        value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
    return value;
}

void put_little_endian(std::string& out, std::uint64_t value, std::size_t size) {
    char bytes[8];
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
    out.append(bytes, size);
}

std::uint8_t opcode_byte(Dialect dialect, Opcode opcode) {
    if (dialect == Dialect::modern) {
        check(opcode != Opcode::watch_key, "the modern dialect has no watch_key");
        return static_cast<std::uint8_t>(opcode);
    }
    auto found = std::find(kLegacyOpcodes.begin(), kLegacyOpcodes.end(), opcode);
    check(found != kLegacyOpcodes.end(), "a request that the legacy dialect lacks");
    return static_cast<std::uint8_t>(found - kLegacyOpcodes.begin());
}

void put_strings(std::string& out, const Request& request, bool pairs) {
    check(!pairs || request.keys.size() == request.values.size(), "multi_set needs a value for each key");
    put_u64(out, request.keys.size());
    for (std::size_t i = 0; i < request.keys.size(); ++i) {
        put_string(out, request.keys[i]);
        if (pairs) put_string(out, request.values[i]);
    }
}

}  // namespace

void put_u32(std::string& out, std::uint32_t value) { put_little_endian(out, value, 4); }
void put_u64(std::string& out, std::uint64_t value) { put_little_endian(out, value, 8); }
void put_i64(std::string& out, std::int64_t value) { put_u64(out, static_cast<std::uint64_t>(value)); }

void put_string(std::string& out, std::string_view value) {
    put_u64(out, value.size());
    out.append(value);
}

std::uint32_t load_u32(const char* bytes) { return static_cast<std::uint32_t>(load_little_endian(bytes, 4)); }
std::uint64_t load_u64(const char* bytes) { return load_little_endian(bytes, 8); }
std::int64_t load_i64(const char* bytes) { return static_cast<std::int64_t>(load_u64(bytes)); }

void encode_request(std::string& out, Dialect dialect, const Request& request) {
    out.push_back(static_cast<char>(opcode_byte(dialect, request.opcode)));
    bool value_written = false;
    for (Field field : kLayouts[static_cast<std::size_t>(request.opcode)]) {
        switch (field) {
            case Field::none: return;
            case Field::key: put_string(out, request.key); break;
            case Field::value:
                put_string(out, value_written ? request.desired : request.value);
                value_written = true;
                break;
            case Field::u32: put_u32(out, static_cast<std::uint32_t>(request.number)); break;
            case Field::i64: put_i64(out, request.number); break;
            case Field::keys: put_strings(out, request, false); break;
            case Field::pairs: put_strings(out, request, true); break;
        }
    }
}

std::span<char> RequestDecoder::prepare() {
    if (begin_ == end_) {
        begin_ = end_ = 0;
        if (capacity_ > kKeptCapacity) {
            buffer_.reset();
            capacity_ = 0;
        }
    }
    if (capacity_ - end_ < kLeastRoom) {
        // Moving is worth it only if it frees half of the buffer: otherwise bytes could be moved again and
        // again.
        std::size_t held = available();
        bool move_only = capacity_ > 0 && begin_ >= capacity_ / 2;
        std::size_t grown = std::min(capacity_ * 2, kMaxCommandLength + kLeastRoom);
        std::size_t wanted = move_only ? capacity_ : std::max(kFirstCapacity, grown);
        if (move_only) {
            std::memmove(buffer_.get(), command(), held);
        } else {
            auto larger = std::make_unique_for_overwrite<char[]>(wanted);
            if (held > 0) std::memcpy(larger.get(), command(), held);
            buffer_ = std::move(larger);
            capacity_ = wanted;
        }
        begin_ = 0;
        end_ = held;
    }
    return {buffer_.get() + end_, capacity_ - end_};
}

void RequestDecoder::commit(std::size_t count) {
    check(count <= capacity_ - end_, "more bytes committed than there was room for");
    end_ += count;
}

void RequestDecoder::feed(std::string_view bytes) {
    while (!bytes.empty()) {
        std::span<char> room = prepare();
        std::size_t count = std::min(room.size(), bytes.size());
        std::memcpy(room.data(), bytes.data(), count);
        commit(count);
        bytes.remove_prefix(count);
    }
}

RequestDecoder::Status RequestDecoder::refuse(std::string_view why) {
    refusal_ = why;
    return Status::refused;
}

RequestDecoder::Status RequestDecoder::next(Request& request) {
    if (!refusal_.empty()) return Status::refused;
    Status status = Status::ready;
    if (!dialect_) status = detect_dialect();
    if (status == Status::ready && !has_opcode_) status = read_opcode();
    if (status == Status::ready) status = read_fields();
    if (status == Status::ready) finish(request);
    return status;
}

RequestDecoder::Status RequestDecoder::detect_dialect() {
    static constexpr char kOpening[] = {0, '\xCE', '\xF7', '\x85', '\x3C'};
    if (available() == 0) return Status::incomplete;
    if (!is_store_first_byte(static_cast<std::uint8_t>(*command())))
        return refuse("not the store's protocol");
    std::size_t known = std::min(available(), sizeof kOpening);
    if (std::memcmp(command(), kOpening, known) != 0) {
        dialect_ = Dialect::legacy;
    } else if (known == sizeof kOpening) {
        dialect_ = Dialect::modern;
    } else {
        return Status::incomplete;
    }
    return Status::ready;
}

RequestDecoder::Status RequestDecoder::read_opcode() {
    if (available() == 0) return Status::incomplete;
    auto byte = static_cast<std::uint8_t>(*command());
    if (*dialect_ == Dialect::legacy) {
        if (byte >= kLegacyOpcodes.size()) return refuse("unknown opcode");
        opcode_ = kLegacyOpcodes[byte];
    } else {
        if (byte > kLastModernOpcode) return refuse("unknown opcode");
        opcode_ = static_cast<Opcode>(byte);
    }
    has_opcode_ = true;
    cursor_ = 1;
    return Status::ready;
}

RequestDecoder::Status RequestDecoder::read_fields() {
    const Layout& layout = kLayouts[static_cast<std::size_t>(opcode_)];
    for (; field_ < layout.size(); ++field_) {
        Status status = Status::ready;
        switch (layout[field_]) {
            case Field::none: return Status::ready;
            case Field::key: status = read_string(kMaxKeyLength); break;
            case Field::value: status = read_string(kMaxValueLength); break;
            case Field::u32: status = read_number(4); break;
            case Field::i64: status = read_number(8); break;
            case Field::keys: status = read_strings(false); break;
            case Field::pairs: status = read_strings(true); break;
        }
        if (status != Status::ready) return status;
    }
    return Status::ready;
}

RequestDecoder::Status RequestDecoder::read_number(std::size_t size) {
    if (available() - cursor_ < size) return Status::incomplete;
    number_ = static_cast<std::int64_t>(load_little_endian(command() + cursor_, size));
    cursor_ += size;
    if (opcode_ == Opcode::validate && number_ != kValidateMagic)
        return refuse("validate with a wrong number");
    return Status::ready;
}

RequestDecoder::Status RequestDecoder::read_string(std::size_t limit) {
    constexpr std::size_t kPrefix = 8;
    if (available() - cursor_ < kPrefix) return Status::incomplete;
    std::uint64_t size = load_u64(command() + cursor_);
    if (size > limit) return refuse(limit == kMaxKeyLength ? "key too long" : "value too long");
    if (cursor_ + kPrefix + size > kMaxCommandLength) return refuse("command too long");
    if (available() - cursor_ - kPrefix < size) return Status::incomplete;
    spans_.push_back({cursor_ + kPrefix, static_cast<std::size_t>(size)});
    cursor_ += kPrefix + static_cast<std::size_t>(size);
    return Status::ready;
}

RequestDecoder::Status RequestDecoder::read_strings(bool pairs) {
    if (!strings_left_) {
        if (Status status = read_number(8); status != Status::ready) return status;
        auto count = static_cast<std::uint64_t>(number_);
        if (count > kMaxKeysPerCommand) return refuse("too many keys");
        strings_left_ = static_cast<std::size_t>(count) * (pairs ? 2 : 1);
    }
    for (; *strings_left_ > 0; --*strings_left_) {
        bool is_value = pairs && *strings_left_ % 2 == 1;
        Status status = read_string(is_value ? kMaxValueLength : kMaxKeyLength);
        if (status != Status::ready) return status;
    }
    return Status::ready;
}

void RequestDecoder::finish(Request& request) {
    auto view = [&](std::size_t index) {
        const Span& span = spans_[index];
        return std::string_view(command() + span.offset, span.size);
    };
    request.opcode = opcode_;
    request.number = number_;
    request.key = request.value = request.desired = {};
    request.keys.clear();
    request.values.clear();
    if (strings_left_) {
        bool pairs = opcode_ == Opcode::multi_set;
        for (std::size_t i = 0; i < spans_.size(); ++i) {
            (pairs && i % 2 == 1 ? request.values : request.keys).push_back(view(i));
        }
    } else {
        if (!spans_.empty()) request.key = view(0);
        if (spans_.size() > 1) request.value = view(1);
        if (spans_.size() > 2) request.desired = view(2);
    }
    begin_ += cursor_;
    cursor_ = 0;
    field_ = 0;
    number_ = 0;
    has_opcode_ = false;
    identified_ = true;
    strings_left_.reset();
    if (spans_.capacity() > kKeptSpans) {
        spans_ = {};
    } else {
        spans_.clear();
    }
}

}  // namespace base
}  // namespace ddprun
