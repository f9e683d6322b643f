#include "launcher/secret_text.hpp"

#include <boost/algorithm/string/join.hpp>
#include <random>

#include "launcher/harmless_text.hpp"
#include "launcher/secret_name.hpp"
#include "rendezvous/text/split.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

using Words = std::vector<std::string>;

constexpr const char* kSecretNames[] = {"JOB_DB_PASS",
                                        "DATABASE_URL",
                                        "ML_TOKEN",
                                        "PGPASSWORD",
                                        "AWS_SECRET_ACCESS_KEY",
                                        "AWS_SESSION_TOKEN",
                                        "HF_TOKEN",
                                        "WANDB_API_KEY",
                                        "DDPRUN_SECRET",
                                        "DDPRUN_MESH_KEY",
                                        "PET_Password",
                                        "SLURM_JWT",
                                        "MYSQL_PWD",
                                        "REDIS_URL",
                                        "MONGODB_URI",
                                        "BASIC_AUTH",
                                        "SENTRY_DSN",
                                        "GIT_CREDENTIALS",
                                        "AZURE_STORAGE_CONNECTION_STRING",
                                        "SLACK_WEBHOOK_URL",
                                        "OMPI_MCA_orte_precondition_transports",
                                        "dbpass",
                                        "--password",
                                        "--pw",
                                        "DB_PW",
                                        "--api-key",
                                        "--hf_token",
                                        "MYPW",
                                        "NCCL_PRIVATE",
                                        "apiKey",
                                        "AccountKey",
                                        "X-Api-Key",
                                        "id_token",
                                        "new_pass",
                                        "access_tokens",
                                        "GITHUB_PAT"};

constexpr const char* kOtherNames[] = {"PATH",
                                       "PWD",
                                       "OLDPWD",
                                       "HOME",
                                       "NCCL_IB_PKEY",
                                       "TOKENIZERS_PARALLELISM",
                                       "--max-tokens",
                                       "DDPRUN_SECRET_FILE",
                                       "PASSENGER",
                                       "COMPASS_X",
                                       "--auth",
                                       "BYPASSES",
                                       "BYPASS",
                                       "monkey",
                                       "keyboard",
                                       "sort_key",
                                       "tokenize",
                                       "pad_token_id",
                                       "--tokens-per-batch",
                                       "max_new_tokens",
                                       "first_pass",
                                       "SSH_PUBLIC_KEY",
                                       "is_private",
                                       "TokenError",
                                       "SSH_AUTH_SOCK",
                                       "--make-secret",
                                       "missing_keys",
                                       "SERVER_URL",
                                       "RANK",
                                       "",
                                       "SSH_KEY_PATH",
                                       "--pin-memory"};

TEST_CASE("which names are secret") {
    for (const char* name : kSecretNames) {
        CAPTURE(name);
        CHECK(is_secret_name(name));
    }
    for (const char* name : kOtherNames) {
        CAPTURE(name);
        CHECK_FALSE(is_secret_name(name));
    }
}

TEST_CASE("a command is stored and shown without secrets") {
    const struct {
        Words words, masked;
    } rows[] = {
        {{"train.py", "--password", "x", "--lr", "1"},
         {"train.py", "--password", "(not shown)", "--lr", "1"}},
        {{"--token=x"}, {"--token=(not shown)"}},
        {{"Server=x;Password=y;User=z"}, {"Server=x;Password=(not shown)"}},
        {{"h?user=x&password=y&a=b"}, {"h?user=x&password=(not shown)&a=b"}},
        {{"--password", "--lr", "1"}, {"--password", "--lr", "1"}},
        {{"--env", "ML_TOKEN=a b"}, {"--env", "ML_TOKEN=(not shown)"}},
        {{"--env-rank=0-3:ML_TOKEN=a"}, {"--env-rank=0-3:ML_TOKEN=(not shown)"}},
        {{"--env=ML_TOKEN=a"}, {"--env=ML_TOKEN=(not shown)"}},
        // Where a value with blanks ends nobody can tell.
        {{"sh", "-c", "PGPASSWORD=x psql y"}, {"sh", "-c", "PGPASSWORD=(not shown)"}},
        {{"sh", "-c", "psql  --api-key y z"}, {"sh", "-c", "psql  --api-key (not shown) z"}},
        {{"postgres://ann:p%40w@db:5432/x?a=b"}, {"postgres://ann:(not shown)@db:5432/x?a=b"}},
        {{"--db=redis://:p/w@h/0"}, {"--db=redis://:(not shown)@h/0"}},
        {{"http://h:80/@scope", "ssh://git@h/x", "a@b:c"}, {"http://h:80/@scope", "ssh://git@h/x", "a@b:c"}},
        {{"--login", "hf_abcdefghijklmnopqrst"}, {"--login", "(not shown)"}},
        {{std::string(190, 'a') + "_PASSWORD=x"}, {std::string(190, 'a') + "_PASSWORD=(not shown)"}},
        {{std::string(191, 'a') + "_PASSWORD=x"}, {std::string(191, 'a') + "_PASSWORD=(not shown)"}},
        {{"--env", "API_KEY x"}, {"--env", "API_KEY(not shown)"}},
        {{"{\"a\": 1, \"password\": \"x y\", \"b\": 2}"},
         {"{\"a\": 1, \"password\": \"(not shown)\", \"b\": 2}"}},
        {{"curl", "-u", "ann:x"}, {"curl", "-u", "ann:(not shown)"}},
        {{"--key", "", "--secret-file", "/s", "A=1", "--hosts", "a:8,b:8"},
         {"--key", "(not shown)", "--secret-file", "/s", "A=1", "--hosts", "a:8,b:8"}},
    };
    for (const auto& row : rows) CHECK(masked_words(row.words) == row.masked);
}

// Each has X7 in it, which is secret; a | parts the words.
constexpr const char* kWithSecrets[] = {
    // headers
    "curl|--header|Authorization: Bearer X7",
    "curl|-H|authorization: Basic X7",
    "--header=Proxy-Authorization: Digest realm=a, response=X7",
    "sh|-c|curl -H 'Authorization: Bearer X7' http://h/p",
    "sh|-c|curl -H \"X-Api-Key: X7\" --lr 1",
    "sh|-c|curl -H 'Cookie: a=b; id=X7'",
    "x-auth: Token X7 more",
    "refused Bearer X7",
    // within texts
    "sh|-c|curl -d a_token: X7 http://h",
    "sh|-c|mysql --password \"a X7\" --lr 1",
    "sh|-c|x --password 'a X7' --lr 1",
    "sh|-c|x --password='it'\\''s X7'",
    "sh|-c|the workers' token='a X7' b",
    "sh|-c|cd a; AWS_SECRET_ACCESS_KEY=X7 run it",
    "sh|-c|x --password \\\nX7",
    "sh|-c|docker run -e PASSWORD=\"a X7\" img",
    "sh|-c|echo 'password: X7' | docker login --password-stdin r",
    "password = X7",
    "os.environ[\"API_KEY\"] = \"X7\"",
    "DB_PASSWORD: X7",
    "KEY=X7",
    // JSON and its like
    "{\"password\":\"X7\"}",
    "{\"lr\": 1, \"password\": \"a X7\", \"a\": 2}",
    "{\"a\": 1, \"auth\": {\"user\": \"ann\", \"key\": \"X7\"}, \"b\": 1}",
    "{\\\"apiKey\\\": \\\"X7\\\"}",
    "{'token': 'X7', 'lr': 1}",
    "{'api_keys': ['a b', 'X7']}",
    "{lr: 1, api_token: X7, a: 2}",
    "{\"token\": 127, \"api_key\": \"X7\"}",
    "{\"password\":\"a\\\"X7\"}",
    "model.auth={user:ann,password:X7}",
    "<password>X7</password>",
    // lists, Hydra, connection strings
    "a=1,b=2,password=X7,lr=1",
    "+hf.token=X7",
    "++trainer.logger.api_key=X7",
    "secrets.db=X7",
    "Server=h;Uid=u;Pwd=X7;",
    "PWD=X7;Server=h",
    "Server=h;PWD=/X7",
    "AccountName=a;AccountKey=X7==;E=core",
    "user:ann;password:X7",
    "--conf|spark.hadoop.fs.s3a.secret.key=X7",
    // options
    "--pwd|X7",
    "--auth|X7",
    "--dbPassword|X7",
    "--token|a X7",
    "--token:X7",
    "--oauth2-bearer|X7",
    "-passin|pass:X7",
    "sh|-c|x --password $'a X7' b",
    "sh|-c|x --password a\\ X7 b",
    "sh|-c|x --password=\"\"X7",
    "--cookie|a=X7",
    "curl|-u|ann:X7",
    "curl|-uann:X7",
    "curl|--proxy-user=ann:X7",
    "sh|-c|curl -u \"ann:a X7\" http://h",
    "--env|MYPW=X7",
    "--env|NCCL_PRIVATE=a X7",
    "--env|API_KEY X7",
    "--env|=X7",
    "--env|API_KEY,X7",
    "--env|NCCL_PRIVATE_DATA=X7",
    "--env-rank|0-3 API_KEY X7",
    "--env-rank|local=0:API_KEY X7",
    // addresses
    "http://h/p?a=b&token=X7&c=d",
    "http://h/p?sig=X7",
    "http://h/p?key=X7",
    "https://h/#access_token=X7",
    "https://X7@h/p",
    "git+https://X7@h",
    "https://user:X7@h",
    "https://X7:x-oauth-basic@h",
    "https://X7:@h",
    "redis://:X/7X7@h/0",
    // by themselves
    "sk-proj-abcdefghX712345678",
    "see ghp_abcdefX712345678, there",
    "-----BEGIN RSA PRIVATE KEY-----\nX7\nX7\n-----END RSA PRIVATE KEY-----",
    "--key|-----BEGIN PRIVATE KEY----- X7",
};

constexpr const char* kWithoutSecrets[] = {
    "--tokenizer|bert|--tokens-per-batch|4096|max_tokens=5|author=me|--authors|x|PWD=/home/u|passes=3|key=value",
    "keyboard=1|--pad-token-id|0|monkey=2|ann@example.com|user@host:path/x|pytorch@2.9|n_tokens: 512 x",
    "--auth|required|--auth|off|--sort-key|name|--max-new-tokens=5|tokens=4096|--eos-token|</s>|--low-pass|3",
    "--secret-file|/s|--num-keys=4|-u|train.py|-u|1000:1000|--pwd|/home/u|OLDPWD=/x|--bypass=1|compass=2",
    "http://h:80/@scope|ssh://git@h/x|a@b:c|https://git@h/x|abfss://c@account/x|registry/auth:latest",
    "use_auth_token=True|token=None|password=null|--private=true|hf_hub_download_with_retries|sk-learn-contrib",
    "{\"max_tokens\": 5, \"pad_token\": \"<pad>\", \"key\": \"v\"}|--public-key|x|passenger=4|--authority=x",
    "SSH_AUTH_SOCK=/tmp/x|NCCL_IB_PKEY=3|TOKENIZERS_PARALLELISM=false|token.py:33: error|std::token::x",
    "KeyError: key=5|  File \"/x/token.py\", line 3, in get_token|KeyError: 'token'|TokenError: bad thing",
    "HF_TOKEN: unbound variable|unexpected token: end of file|missing_keys: ['a.weight'], unexpected_keys: ['b']",
    "train.py: error: argument --token: expected one argument|usage: --password is required|ETA 12:30:01",
    "--auth maybe: must be auto|--auth off: site says auth = required; leave it|ddprun --make-secret makes one",
    "DDPRUN_SECRET: the secret is too short|no secret: whoever reaches this node's port can take part",
};

Words parts_of(std::string_view text) {
    Words words;
    for (const std::string_view word : split_at(text, '|')) words.emplace_back(word);
    return words;
}

std::string joined(const Words& words) { return boost::algorithm::join(words, " "); }

TEST_CASE("no form shows a secret") {
    for (const char* text : kWithSecrets) {
        const Words words = parts_of(text);
        const Words masked = masked_words(words);
        CAPTURE(text, masked);
        CHECK(joined(masked).find("X7") == std::string::npos);
        CHECK(joined(masked).find(kNotShown) != std::string::npos);
        CHECK(masked_words(masked) == masked);
        CHECK(harmless_line(joined(masked)) == harmless_line(harmless_line(joined(masked))));
        // Nobody can tell from one text where a word has ended, or that it has followed --env.
        if (words.size() == 1) CHECK(masked_text(text).find("X7") == std::string::npos);
    }
}

TEST_CASE("what is no secret stays readable") {
    for (const char* text : kWithoutSecrets) {
        CHECK(masked_words(parts_of(text)) == parts_of(text));
        for (const std::string& word : parts_of(text)) CHECK(masked_text(word) == word);
    }
}

TEST_CASE("a line of a program stays readable, but for a text in quotes") {
    for (const char* line :
         {"    if token == self.eos_token_id:", "client = Client(api_key=os.environ[\"API_KEY\"])",
          "secret = load_secret(\"db\")", "get(url, auth=(user, password))", "passing `token=<your_token>`.",
          "ValueError: token: 50257 out of range", "tokens/s=3400 token_acc=0.7", "INFO auth: ok",
          "KeyError: 'token_type_ids'", "def __init__(self, password=None, token=None):",
          "session_key = derive(secret_bytes)", "self.token = args.token"}) {
        CAPTURE(line);
        CHECK(masked_text(line) == line);
    }
    CHECK(masked_text("assert token == 'abc'") == "assert token == '(not shown)'");
    CHECK(masked_text("Client(password=\"abc\")") == "Client(password=\"(not shown)\")");
    CHECK(masked_text("password = ab(c") == "password = (not shown)");
    CHECK(masked_text("MY_TOKEN=123456") == "MY_TOKEN=(not shown)");
    CHECK(masked_text("https://x/?token=123456&n=1") == "https://x/?token=(not shown)&n=1");
}

TEST_CASE("any text is masked once, and at a cost that grows with its length") {
    std::mt19937 random(7);
    const char* pieces[] = {"token=",      "password: ",
                            "--password ", "(not shown)",
                            "https://",    "@",
                            "\"",          "'",
                            "\\\"",        "Bearer ",
                            "-u ",         "KEY=",
                            "a",           " ",
                            "\n",          "{",
                            "]",           "x_token",
                            ":",           "=",
                            ";Pwd=",       "Cookie: ",
                            "?key=",       "&",
                            "== ",         "self.",
                            "f(",          ")",
                            "token: ",     "17",
                            "...",         "none",
                            "-----BEGIN",  " PRIVATE KEY-----",
                            "-----END",    "hf_abcdefgh12345678"};
    for (int i = 0; i < 20'000; ++i) {
        Words words(1 + random() % 3);
        for (std::string& word : words)
            for (auto count = random() % 9; count > 0; --count) word += pieces[random() % std::size(pieces)];
        CAPTURE(words);
        const Words masked = masked_words(words);
        CHECK(masked_words(masked) == masked);
        const std::string text = masked_text(joined(words));
        CHECK(masked_text(text) == text);
    }
    for (const char* piece : pieces) {
        std::string text;
        while (text.size() < 1 << 20) text += piece;
        CHECK(!masked_text(text).empty());
        CHECK(!masked_words({"--env", text, "--password", text}).empty());
    }
}

TEST_CASE("what programs print is shown without secrets") {
    CHECK(harmless_line("cannot reach 'amqp://u:p@q' or http://a:b@c") ==
          "cannot reach 'amqp://u:(not shown)@q' or http://a:(not shown)@c");
    CHECK(harmless_line("KeyError: key=5") == "KeyError: key=5");
    CHECK(harmless_line("login failed: \x1b[1mpassword=\x1b[0mx, again") ==
          "login failed: password=(not shown) again");
    CHECK(harmless_line(std::string(kMaxShownLine - 8, 'a') + " x://u:" + std::string(100, 'p') + "@h")
              .ends_with("..."));
    CHECK(cut_middle("x\nredis://:p@h\napi_key=p\n", 64) ==
          "x\nredis://:(not shown)@h\napi_key=(not shown)\n");
}

}  // namespace ddprun
