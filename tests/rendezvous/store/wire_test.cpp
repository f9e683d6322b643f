#include "rendezvous/store/wire.hpp"

#include <random>

#include "tests/support/catch.hpp"
#include "tests/support/raw_client.hpp"

namespace ddprun {
namespace {

using Status = RequestDecoder::Status;

const std::string kOpening = from_hex("00 CE F7 85 3C");

// A request with its own strings, to compare what came out of a decoder whose buffer is gone.
struct Owned {
    Opcode opcode{};
    std::string key, value, desired;
    std::int64_t number = 0;
    std::vector<std::string> keys, values;

    explicit Owned(const Request& request)
        : opcode(request.opcode),
          key(request.key),
          value(request.value),
          desired(request.desired),
          number(request.number),
          keys(request.keys.begin(), request.keys.end()),
          values(request.values.begin(), request.values.end()) {}
    bool operator==(const Owned&) const = default;
};

struct Decoded {
    std::vector<Owned> requests;
    Status end = Status::incomplete;
    std::string refusal;
    bool operator==(const Decoded&) const = default;
};

// Feeds the stream in pieces of the given sizes (the last one repeats).
Decoded decode(std::string_view stream, const std::vector<std::size_t>& pieces) {
    RequestDecoder decoder;
    Decoded decoded;
    Request request;
    std::size_t index = 0;
    while (!stream.empty() && decoded.end != Status::refused) {
        std::size_t size = std::min(stream.size(), pieces[std::min(index++, pieces.size() - 1)]);
        decoder.feed(stream.substr(0, size));
        stream.remove_prefix(size);
        while ((decoded.end = decoder.next(request)) == Status::ready) decoded.requests.emplace_back(request);
    }
    decoded.refusal = decoder.refusal();
    return decoded;
}

Decoded decode_whole(std::string_view stream) {
    return decode(stream, {std::max<std::size_t>(stream.size(), 1)});
}

std::string random_text(std::mt19937& random, std::size_t longest) {
    std::string text(std::uniform_int_distribution<std::size_t>(0, longest)(random), '\0');
    for (char& c : text) c = static_cast<char>(random());
    return text;
}

// Any request of the dialect, with every field filled; the layout decides what travels.
std::string random_request(std::mt19937& random, Dialect dialect) {
    static constexpr Opcode kLegacy[] = {Opcode::set,      Opcode::compare_set, Opcode::get,
                                         Opcode::add,      Opcode::check,       Opcode::wait,
                                         Opcode::num_keys, Opcode::watch_key,   Opcode::delete_key};
    std::string key = random_text(random, 40);
    std::string value = random_text(random, 3000);
    std::string desired = random_text(random, 100);
    std::vector<std::string> keys(random() % 5), values(keys.size());
    for (auto& text : keys) text = random_text(random, 20);
    for (auto& text : values) text = random_text(random, 20);
    Request request;
    request.opcode =
        dialect == Dialect::legacy ? kLegacy[random() % 9] : static_cast<Opcode>(1 + random() % 18);
    request.key = key;
    request.value = value;
    request.desired = desired;
    request.number = static_cast<std::int64_t>((static_cast<std::uint64_t>(random()) << 32) | random());
    request.keys.assign(keys.begin(), keys.end());
    request.values.assign(values.begin(), values.end());
    std::string bytes;
    encode_request(bytes, dialect, request);
    return bytes;
}

std::string random_stream(std::mt19937& random, Dialect dialect, int requests) {
    std::string stream = dialect == Dialect::modern ? kOpening : "";
    for (int i = 0; i < requests; ++i) stream += random_request(random, dialect);
    return stream;
}

}  // namespace

TEST_CASE("wire: bytes captured from PyTorch 1.13 decode to what the client meant") {
    Decoded set = decode_whole(from_hex("00 0200000000000000 2f6b 0200000000000000 7631"));
    REQUIRE(set.requests.size() == 1);
    CHECK(set.requests[0].opcode == Opcode::set);
    CHECK(set.requests[0].key == "/k");
    CHECK(set.requests[0].value == "v1");

    Decoded get =
        decode_whole(from_hex("05 0100000000000000 0200000000000000 2f6b  02 0200000000000000 2f6b"));
    REQUIRE(get.requests.size() == 2);
    CHECK(get.requests[0].opcode == Opcode::wait);
    CHECK(get.requests[0].keys == std::vector<std::string>{"/k"});
    CHECK(get.requests[1].opcode == Opcode::get);
    CHECK(get.requests[1].key == "/k");

    Decoded add = decode_whole(from_hex("03 0200000000000000 2f6e 0500000000000000"));
    REQUIRE(add.requests.size() == 1);
    CHECK(add.requests[0].opcode == Opcode::add);
    CHECK(add.requests[0].number == 5);
    CHECK(decode_whole(from_hex("03 0200000000000000 2f6e feffffffffffffff")).requests.at(0).number == -2);
}

TEST_CASE("wire: a modern client's opening, as PyTorch's own test expects it") {
    Decoded opening = decode_whole(from_hex("00 CE F7 85 3C 0D 44332211"));
    REQUIRE(opening.requests.size() == 2);
    CHECK(opening.requests[0].opcode == Opcode::validate);
    CHECK(opening.requests[1].opcode == Opcode::ping);
    CHECK(opening.requests[1].number == 0x11223344);
}

TEST_CASE("wire: every modern opcode has the number and the fields of the protocol") {
    const std::string k = "0100000000000000 6b", v = "0100000000000000 76", d = "0100000000000000 64";
    const std::string n = "0700000000000000";
    const std::string keys = "0200000000000000" + k + v;
    const std::vector<std::pair<Opcode, std::string>> rows = {
        {Opcode::validate, "00 CEF7853C"},
        {Opcode::set, "01" + k + v},
        {Opcode::compare_set, "02" + k + v + d},
        {Opcode::get, "03" + k},
        {Opcode::add, "04" + k + n},
        {Opcode::check, "05" + keys},
        {Opcode::wait, "06" + keys},
        {Opcode::num_keys, "07"},
        {Opcode::delete_key, "08" + k},
        {Opcode::append, "09" + k + v},
        {Opcode::multi_get, "0A" + keys},
        {Opcode::multi_set, "0B 0100000000000000" + k + v},
        {Opcode::cancel_wait, "0C"},
        {Opcode::ping, "0D 07000000"},
        {Opcode::queue_push, "0E" + k + v},
        {Opcode::queue_pop, "0F" + k},
        {Opcode::queue_len, "10" + k},
        {Opcode::list_keys, "11"},
        {Opcode::barrier, "12" + k + n},
    };
    for (const auto& [opcode, hex] : rows) {
        INFO("opcode " << static_cast<int>(opcode));
        const std::string bytes = from_hex(hex);
        Decoded decoded = decode_whole(kOpening + bytes);
        REQUIRE(decoded.requests.size() == 2);
        const Owned& request = decoded.requests[1];
        CHECK(request.opcode == opcode);
        bool listed = opcode == Opcode::check || opcode == Opcode::wait || opcode == Opcode::multi_get;
        if (listed) CHECK(request.keys == std::vector<std::string>{"k", "v"});
        if (opcode == Opcode::multi_set) CHECK(request.values == std::vector<std::string>{"v"});
        if (opcode == Opcode::compare_set) CHECK(request.desired == "d");

        Request again;
        again.opcode = opcode;
        again.key = "k";
        again.value = "v";
        again.desired = "d";
        again.number = opcode == Opcode::validate ? kValidateMagic : 7;
        if (listed) again.keys = {"k", "v"};
        if (opcode == Opcode::multi_set) {
            again.keys = {"k"};
            again.values = {"v"};
        }
        std::string encoded;
        encode_request(encoded, Dialect::modern, again);
        CHECK(encoded == bytes);
    }
}

TEST_CASE("wire: every legacy opcode has its own number") {
    const std::vector<std::pair<Opcode, std::string>> rows = {
        {Opcode::set, "00"},      {Opcode::compare_set, "01"}, {Opcode::get, "02"},
        {Opcode::add, "03"},      {Opcode::check, "04"},       {Opcode::wait, "05"},
        {Opcode::num_keys, "06"}, {Opcode::watch_key, "07"},   {Opcode::delete_key, "08"},
    };
    for (const auto& [opcode, hex] : rows) {
        Request request;
        request.opcode = opcode;
        request.key = "key";
        std::string bytes;
        encode_request(bytes, Dialect::legacy, request);
        CHECK(bytes[0] == from_hex(hex)[0]);
        Decoded decoded = decode_whole(bytes);
        REQUIRE(decoded.requests.size() == 1);
        CHECK(decoded.requests[0].opcode == opcode);
    }
}

TEST_CASE("wire: the dialect is known as soon as the first bytes tell") {
    RequestDecoder modern;
    Request request;
    for (char byte : kOpening.substr(0, 4)) {
        modern.feed({&byte, 1});
        CHECK(modern.next(request) == Status::incomplete);
        CHECK_FALSE(modern.dialect());
        CHECK_FALSE(modern.identified());
        CHECK(modern.in_request());
    }
    modern.feed(kOpening.substr(4));
    CHECK(modern.next(request) == Status::ready);
    CHECK(modern.dialect() == Dialect::modern);
    CHECK(modern.identified());
    CHECK_FALSE(modern.in_request());

    // A legacy set of a key of 0xCE bytes shares its first two bytes with the opening.
    RequestDecoder legacy;
    legacy.feed(from_hex("00 CE 00"));
    CHECK(legacy.next(request) == Status::incomplete);
    CHECK(legacy.dialect() == Dialect::legacy);
    CHECK_FALSE(legacy.identified());
}

TEST_CASE("wire: what is no request is refused as early as it can be known") {
    struct Row {
        std::string name, bytes;
    };
    const std::string too_long_key = wire_i64(kMaxKeyLength + 1),
                      too_long_value = wire_i64(kMaxValueLength + 1);
    const std::vector<Row> rows = {
        {"first byte", "\x09"},
        {"an HTTP request's first byte", "G"},
        {"legacy unknown opcode", from_hex("06 09")},
        {"modern unknown opcode", kOpening + "\x13"},
        {"modern opcode 255", kOpening + "\xFF"},
        {"second validate with a wrong number", kOpening + from_hex("00 CEF7853D")},
        {"legacy key too long", from_hex("02") + too_long_key},
        {"negative length", from_hex("02") + wire_i64(-1)},
        {"modern key too long", kOpening + "\x03" + too_long_key},
        {"value too long", kOpening + "\x01" + wire_string("k") + too_long_value},
        {"desired value too long", kOpening + "\x02" + wire_string("k") + wire_string("") + too_long_value},
        {"too many keys to check", kOpening + "\x05" + wire_i64(kMaxKeysPerCommand + 1)},
        {"negative count", kOpening + "\x0B" + wire_i64(-1)},
        {"multi_set's key too long", kOpening + "\x0B" + wire_i64(1) + too_long_key},
        {"multi_set's value too long", kOpening + "\x0B" + wire_i64(1) + wire_string("k") + too_long_value},
    };
    for (const Row& row : rows) {
        INFO(row.name);
        Decoded decoded = decode(row.bytes, {1});
        CHECK(decoded.end == Status::refused);
        CHECK_FALSE(decoded.refusal.empty());
        // One byte less is not refused yet: the limit is exact and the refusal comes with the last byte of
        // the number.
        CHECK(decode(row.bytes.substr(0, row.bytes.size() - 1), {1}).end != Status::refused);
    }
}

TEST_CASE("wire: what is exactly at a limit is still accepted") {
    const std::string key(kMaxKeyLength, 'k');
    CHECK(decode_whole(from_hex("02") + wire_string(key)).requests.size() == 1);
    CHECK(decode(kOpening + "\x05" + wire_i64(kMaxKeysPerCommand), {1}).end == Status::incomplete);
    CHECK(decode(kOpening + "\x01" + wire_string("k") + wire_i64(kMaxValueLength), {1}).end ==
          Status::incomplete);
}

TEST_CASE("wire: the whole command has a limit, and a length prefix allocates nothing") {
    RequestDecoder decoder;
    Request request;
    decoder.feed(kOpening + "\x0B" + wire_i64(3));
    const std::string half(kMaxValueLength, 'v');
    REQUIRE(decoder.next(request) == Status::ready);
    Status status = Status::incomplete;
    for (int i = 0; i < 2; ++i) {
        decoder.feed(wire_string("k") + wire_string(half));
        status = decoder.next(request);
        REQUIRE(status == Status::incomplete);
    }
    decoder.feed(wire_string("k") + wire_i64(kMaxValueLength));
    CHECK(decoder.next(request) == Status::refused);
    CHECK(decoder.refusal() == "command too long");

    RequestDecoder announced;
    announced.feed(kOpening + "\x01" + wire_string("k") + wire_i64(kMaxValueLength));
    while (announced.next(request) == Status::ready) {
    }
    CHECK(announced.capacity() <= 8192);
}

TEST_CASE("wire: a large command's buffer is given back") {
    RequestDecoder decoder;
    Request request;
    decoder.feed(from_hex("00") + wire_string("k") + wire_string(std::string(std::size_t{8} << 20, 'v')));
    REQUIRE(decoder.next(request) == Status::ready);
    CHECK(request.value.size() == std::size_t{8} << 20);
    CHECK(decoder.capacity() >= std::size_t{8} << 20);
    CHECK_FALSE(decoder.prepare().empty());
    CHECK(decoder.capacity() <= 65536);
}

TEST_CASE("wire: how the stream is cut makes no difference") {
    unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 60; ++round) {
        Dialect dialect = round % 2 == 0 ? Dialect::modern : Dialect::legacy;
        std::string stream = random_stream(random, dialect, 30);
        if (round % 3 == 0) {
            for (int i = 0; i < 3; ++i) stream[random() % stream.size()] = static_cast<char>(random());
        }
        Decoded whole = decode_whole(stream);
        if (round % 3 != 0) REQUIRE(whole.requests.size() == (dialect == Dialect::modern ? 31U : 30U));
        std::vector<std::size_t> pieces(200);
        for (auto& piece : pieces) piece = 1 + random() % (round % 5 == 0 ? 3 : 2000);
        CHECK(decode(stream, {1}) == whole);
        CHECK(decode(stream, pieces) == whole);
    }
}

TEST_CASE("wire: random bytes are never taken badly") {
    unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 300; ++round) {
        std::string stream = (round % 2 == 0 ? kOpening : "") + random_text(random, 400);
        CHECK(decode(stream, {1 + random() % 50}) == decode_whole(stream));
    }
}

TEST_CASE("wire: a command of many keys costs its bytes, not their square, when it comes byte by byte") {
    // 131072 empty keys in single bytes are 1 MiB: quadratic work would be 10^11 steps and end in the test's
    // limit.
    const std::string stream =
        kOpening + "\x06" + wire_i64(kMaxKeysPerCommand) + std::string(8 * kMaxKeysPerCommand, '\0');
    Decoded decoded = decode(stream, {1});
    REQUIRE(decoded.requests.size() == 2);
    CHECK(decoded.requests[1].keys.size() == kMaxKeysPerCommand);
}

TEST_CASE("wire: only the store's first bytes are the store's") {
    CHECK(is_store_first_byte(0));
    CHECK(is_store_first_byte(8));
    CHECK_FALSE(is_store_first_byte(9));
    for (char byte : std::string_view("GPHOD\x16\xFF"))
        CHECK_FALSE(is_store_first_byte(static_cast<std::uint8_t>(byte)));
}

TEST_CASE("wire: integers are little-endian whatever the machine is") {
    CHECK(wire_i64(-2) == from_hex("fe ff ff ff ff ff ff ff"));
    CHECK(wire_u32(0x3C85F7CE) == from_hex("ce f7 85 3c"));
    CHECK(load_i64(from_hex("fe ff ff ff ff ff ff ff").data()) == -2);
    CHECK(load_u32(from_hex("ce f7 85 3c").data()) == kValidateMagic);
    CHECK(load_u64(from_hex("01 02 03 04 05 06 07 88").data()) == 0x8807060504030201);
}

}  // namespace ddprun
