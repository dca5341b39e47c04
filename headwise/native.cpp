// Products of 8-bit numbers, cached steps of plain decoder blocks and the ranking of tokens: what torch's operators compute.
// Compiled on the machine that runs it (`native.py`). `layers/compiled.py` repeats the structures, field by field, and
// `decoding/constraints.py` that of the ranking.
#include <immintrin.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#if defined(__AVX512VNNI__)
typedef __m512i Lanes;
constexpr int BITS = 8;
static inline Lanes dot(Lanes sum, Lanes x, Lanes w) { return _mm512_dpbusd_epi32(sum, x, w); }
static inline Lanes four(int32_t x) { return _mm512_set1_epi32(x); }
#elif defined(__AVXVNNI__)
typedef __m256i Lanes;
constexpr int BITS = 8;
static inline Lanes dot(Lanes sum, Lanes x, Lanes w) { return _mm256_dpbusd_avx_epi32(sum, x, w); }
static inline Lanes four(int32_t x) { return _mm256_set1_epi32(x); }
#elif defined(__AVX2__)
typedef __m256i Lanes;
// two products of 8 bits overflow 16
constexpr int BITS = 7;
static inline Lanes dot(Lanes sum, Lanes x, Lanes w) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(x, w), _mm256_set1_epi16(1)));
}
static inline Lanes four(int32_t x) { return _mm256_set1_epi32(x); }
#else
#error "needs AVX2"
#endif

// outputs side by side, how many such panels and rows are computed at once, and what the number of inputs is padded to
constexpr int64_t LANES = sizeof(Lanes) / 4, PANELS = LANES == 16 ? 2 : 1, FEW_ROWS = 8, LINE = 16;
#if defined(__AMX_INT8__) && defined(__AVX512VNNI__) && defined(__linux__)
#define TILES
constexpr int64_t DEPTH = 64, MOST_ROWS = 32, TILE = 16;
#else
constexpr int64_t DEPTH = 4, MOST_ROWS = FEW_ROWS, TILE = 1;
#endif

// x W^T + b. `weight` is (out / LANES, in / 4, LANES, 4), padded with zeros to panels and DEPTH; `sums` of its rows;
// inputs have `largest`.
struct Layer {
    int64_t in, out, largest;
    const int8_t *weight;
    const float *scales, *bias;
    const int32_t *sums;
};
struct Norm {
    const float *weight, *bias;
    float eps;
    int32_t on;
};
struct Attention {
    Layer project, output;
    Norm before, after;
    int64_t heads, kv_heads, head_dim;
};
enum Activation : int64_t { RELU, GELU };
struct Block {
    Attention own, cross;
    Layer inner, outer;
    Norm before, after;
    int64_t activation, crosses;
};
// keys and values of one layer and search; strides in numbers, of a sentence, a head and a key
struct Memory {
    float *keys, *values;
    int64_t key_strides[3], value_strides[3];
    int64_t length;
};
// rows of one search: `bias` hides keys from a row (0 or minus infinity), `lens` are those of the memory
struct Part {
    int64_t sentences, width;
    Memory own, cross;
    const float *bias;
    int64_t bias_strides[2];
    const int64_t *lens;
};

template <int ROWS>
static void panels(const Layer &layer, const uint8_t *x, int64_t stride, int64_t first, int64_t count, int32_t *sums) {
    const int64_t fours = stride / 4;
    Lanes sum[ROWS][PANELS];
    for (auto &row : sum)
        for (auto &panel : row) panel = four(0);
    const Lanes *weight = (const Lanes *)layer.weight + first * fours;
    // a panel that is not there repeats the last one
    const int64_t next = count > 1 ? fours : 0;
    for (int64_t k = 0; k < fours; k++) {
        Lanes w[PANELS];
        for (int p = 0; p < PANELS; p++) w[p] = weight[k + p * next];
        for (int r = 0; r < ROWS; r++) {
            int32_t bytes;
            std::memcpy(&bytes, x + r * stride + 4 * k, 4);
            for (int p = 0; p < PANELS; p++) sum[r][p] = dot(sum[r][p], four(bytes), w[p]);
        }
    }
    std::memcpy(sums, sum, sizeof sum);
}

typedef void (*Panels)(const Layer &, const uint8_t *, int64_t, int64_t, int64_t, int32_t *);
static const Panels BY_ROWS[] = {nullptr,   panels<1>, panels<2>, panels<3>, panels<4>,
                                 panels<5>, panels<6>, panels<7>, panels<8>};
constexpr int64_t LINE_BYTES = 64, BLOCK_ROWS = 256, NEAR = 1 << 18;
// by tiles, even rows that are mostly empty are faster than more of these by vectors
constexpr int64_t VECTOR_ROWS = 2;

#if defined(TILES)
// what was written is in memory: GCC does not know that tiles read it
static inline void settled(const void *place) { __asm__ volatile("" ::"r"(place) : "memory"); }

// whether Linux lets this process use tiles; it is asked once
static bool may_use_tiles() {
    constexpr long REQUEST = 0x1023, TILE_DATA = 18;
    static const bool allowed = syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
    return allowed;
}

// takes eight tiles of 16 rows of 64 bytes
static void hold_tiles() {
    alignas(64) uint8_t config[64] = {1};
    for (int tile = 0; tile < 8; tile++) config[16 + 2 * tile] = 64, config[48 + tile] = TILE;
    settled(config);
    _tile_loadconfig(config);
}
static void release_tiles() { _tile_release(); }

// the sums of 16 rows, or 32: as they lie, the panels of a weight are tiles
template <bool TWICE>
static void tiles(const Layer &layer, const uint8_t *x, int64_t stride, int64_t first, int64_t count, int32_t *sums) {
    const int8_t *one = layer.weight + first * stride * LANES, *other = one + (count > 1 ? stride * LANES : 0);
    constexpr int64_t ACROSS = 4 * PANELS * LANES;
    settled(x);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < stride; k += DEPTH) {
        _tile_loadd(4, x + k, stride);
        _tile_loadd(6, one + k * LANES, 64);
        _tile_loadd(7, other + k * LANES, 64);
        _tile_dpbusd(0, 4, 6);
        _tile_dpbusd(1, 4, 7);
        if (!TWICE) continue;
        _tile_loadd(5, x + TILE * stride + k, stride);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
    }
    _tile_stored(0, sums, ACROSS);
    _tile_stored(1, sums + LANES, ACROSS);
    if (!TWICE) return;
    sums += TILE * PANELS * LANES;
    _tile_stored(2, sums, ACROSS);
    _tile_stored(3, sums + LANES, ACROSS);
}
static Panels tiles(int64_t rows) { return rows > TILE ? tiles<true> : tiles<false>; }
#else
static bool may_use_tiles() { return false; }
static void hold_tiles() {}
static void release_tiles() {}
static Panels tiles(int64_t) { return nullptr; }
#endif

static int64_t padded(int64_t count, int64_t to) { return (count + to - 1) / to * to; }

constexpr int64_t WIDE = 64;

// the smallest and the largest of every 64th number, and these; NaN counts for nothing
static void extremes(const float *x, int64_t count, float *lows, float *highs) {
    for (int64_t start = 0; start < count; start += WIDE) {
        const int64_t stop = std::min(WIDE, count - start);
        // compilers leave a reduction scalar
        for (int64_t i = 0; i < stop; i++) {
            lows[i] = x[start + i] < lows[i] ? x[start + i] : lows[i];
            highs[i] = x[start + i] > highs[i] ? x[start + i] : highs[i];
        }
    }
}

// the scale and the zero of all numbers, as `at::native::quantize` chooses them; false for NaN or infinity
static bool range(const float *x, int64_t count, int64_t largest, float &scale, int32_t &zero) {
    float lows[WIDE] = {}, highs[WIDE] = {}, check = 0;
    extremes(x, count, lows, highs);
    float low = *std::min_element(lows, lows + WIDE), high = *std::max_element(highs, highs + WIDE);
#pragma omp simd reduction(+ : check)
    for (int64_t i = 0; i < count; i++) check += x[i] * 0;
    if (check != 0) return false;
    double step = ((double)high - low) / largest;
    if ((float)step == 0 || std::isinf(1.0f / (float)step)) step = 0.1;
    constexpr float SMALLEST = 6.1e-5f;
    if (step < SMALLEST) {
        const float enlarged = SMALLEST / (float)step;
        step = SMALLEST, low *= enlarged;
        if (low == 0) high = SMALLEST * largest;
    }
    scale = (float)step;
    zero = (int32_t)std::min<double>(largest, std::max<double>(0, std::nearbyint(-low / step)));
    return true;
}

// the numbers of some rows in 8 bits, `stride` apart, with zeros between them
static void rounds(const float *x, int64_t rows, int64_t in, float scale, float zero, float most, uint8_t *to, int64_t stride) {
    const float inverse = 1.0f / scale;
    for (int64_t r = 0; r < rows; r++, x += in, to += stride) {
#pragma omp simd
        for (int64_t k = 0; k < in; k++)
            to[k] = (uint8_t)(int32_t)std::min(most, std::max(0.0f, std::nearbyint(x[k] * inverse + zero)));
        std::fill(to + in, to + stride, (uint8_t)0);
    }
}

// numbers of a row from their sums
static void widen(const Layer &layer, const int32_t *sums, float scale, int32_t zero, int64_t first, float *row) {
    const int64_t count = std::min(PANELS * LANES, layer.out - first);
#pragma omp simd
    for (int64_t n = 0; n < count; n++)
        row[first + n] = (float)(sums[n] - zero * layer.sums[first + n]) * (scale * layer.scales[first + n]) +
                         layer.bias[first + n];
}

// of some rows, whose scale and zero are known
static void block_product(const Layer &layer, const float *x, int64_t rows, float scale, int32_t zero, float *out) {
    static thread_local std::vector<uint8_t> rounded;
    const int64_t stride = padded(layer.in, DEPTH), count = padded(layer.out, LANES) / LANES;
    // rows of a tile that are not there are computed and left out
    rounded.resize(padded(rows, TILE) * stride + LINE_BYTES);
    uint8_t *bytes = (uint8_t *)padded((int64_t)rounded.data(), LINE_BYTES);
    rounds(x, rows, layer.in, scale, (float)zero, (float)layer.largest, bytes, stride);
    const bool tiled = rows > VECTOR_ROWS && may_use_tiles();
    if (tiled) hold_tiles();
    const int64_t most = tiled ? MOST_ROWS : FEW_ROWS;
    // so many panels are read again from the second level for the next rows, and written as whole pages
    const int64_t near = std::max<int64_t>(1, NEAR / (stride * LANES * PANELS)) * PANELS;
    for (int64_t start = 0; start < count; start += near)
        for (int64_t r = 0; r < rows; r += most)
            for (int64_t panel = start; panel < std::min(count, start + near); panel += PANELS) {
                alignas(64) int32_t sums[MOST_ROWS * PANELS * LANES];
                const int64_t own = std::min(most, rows - r);
                (tiled ? tiles(own) : BY_ROWS[own])(layer, bytes + r * stride, stride, panel, count - panel, sums);
                for (int64_t i = 0; i < own; i++)
                    widen(layer, sums + i * PANELS * LANES, scale, zero, panel * LANES, out + (r + i) * layer.out);
            }
    if (tiled) release_tiles();
}

static void product(const Layer &layer, const float *x, int64_t rows, float *out) {
    float scale;
    int32_t zero;
    if (!range(x, rows * layer.in, layer.largest, scale, zero)) {
        std::fill(out, out + rows * layer.out, std::numeric_limits<float>::quiet_NaN());
        return;
    }
    // block by block, so that long texts leave no large buffer behind
    for (int64_t r = 0; r < rows; r += BLOCK_ROWS)
        block_product(layer, x + r * layer.in, std::min(BLOCK_ROWS, rows - r), scale, zero, out + r * layer.out);
}

static void normalize(const Norm &norm, const float *x, float *out, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; r++, x += width, out += width) {
        if (!norm.on) {
            if (out != x) std::copy(x, x + width, out);
            continue;
        }
        float mean = 0, square = 0;
#pragma omp simd reduction(+ : mean)
        for (int64_t i = 0; i < width; i++) mean += x[i];
        mean /= width;
#pragma omp simd reduction(+ : square)
        for (int64_t i = 0; i < width; i++) square += (x[i] - mean) * (x[i] - mean);
        const float scale = 1 / std::sqrt(square / width + norm.eps);
#pragma omp simd
        for (int64_t i = 0; i < width; i++) out[i] = (x[i] - mean) * scale * norm.weight[i] + norm.bias[i];
    }
}

// Cephes' expf, for numbers of at most 0
#pragma omp declare simd
static inline float exponential(float x) {
    x = std::max(x, -87.0f);
    const float whole = std::nearbyint(x * 1.44269504f);
    x = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * x + 1.3981999507e-3f, y = y * x + 8.3334519073e-3f, y = y * x + 4.1665795894e-2f;
    y = y * x + 1.6666665459e-1f, y = y * x + 5.0000001201e-1f;
    y = y * x * x + x + 1;
    const int32_t bits = ((int32_t)whole + 127) << 23;
    float power;
    std::memcpy(&power, &bits, 4);
    return y * power;
}

// x (1 + erf(x / sqrt(2))) / 2; erf by Abramowitz and Stegun, 7.1.26, to 1.5e-7
#pragma omp declare simd
static inline float gelu(float x) {
    const float z = std::abs(x) * 0.70710678f, t = 1 / (1 + 0.3275911f * z);
    float y = 1.061405429f;
    y = y * t - 1.453152027f, y = y * t + 1.421413741f, y = y * t - 0.284496736f, y = y * t + 0.254829592f;
    // half of the tail beyond z, which is above x, or below it
    const float tail = 0.5f * y * t * exponential(-z * z);
    return x * (x < 0 ? tail : 1 - tail);
}

static void activate(int64_t activation, float *x, int64_t count) {
    if (activation == RELU) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) x[i] = std::max(x[i], 0.0f);
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < count; i++) x[i] = gelu(x[i]);
}

// softmax(q k / sqrt(dim)) v over these keys; zeros where there are none. DIM is known to the compiler, or 0
template <int64_t DIM>
static void attend(const float *query, const float *keys, int64_t key_stride, int64_t next, const float *values, int64_t value_stride,
                   const int32_t *seen, int64_t count, int64_t any, float *weights, float *out) {
    const int64_t dim = DIM ? DIM : any;
    const float scale = 1 / std::sqrt((float)dim);
    float largest = -std::numeric_limits<float>::infinity(), total = 0;
    for (int64_t j = 0; j < count; j++) {
        const float *key = keys + seen[j] * key_stride, *value = values + seen[j] * value_stride;
        for (int64_t i = 0; i < dim; i += LINE) __builtin_prefetch(value + i), __builtin_prefetch(key + next + i);
        float score = 0;
#pragma omp simd reduction(+ : score)
        for (int64_t i = 0; i < dim; i++) score += query[i] * key[i];
        weights[j] = score * scale;
        largest = std::max(largest, weights[j]);
    }
#pragma omp simd reduction(+ : total)
    for (int64_t j = 0; j < count; j++) weights[j] = exponential(weights[j] - largest), total += weights[j];
    std::fill(out, out + dim, 0.0f);
    for (int64_t j = 0; j < count; j++) {
        const float *value = values + seen[j] * value_stride, weight = weights[j] / total;
#pragma omp simd
        for (int64_t i = 0; i < dim; i++) out[i] += weight * value[i];
    }
}

// of each row of a part, `queries` apart by `stride`, what its heads attend to
static void attend_all(const Attention &layer, const Part &part, const Memory &memory, bool own, const float *queries,
                       int64_t stride, float *out) {
    static thread_local std::vector<int32_t> seen_keys;
    static thread_local std::vector<float> kept_weights;
    seen_keys.resize(memory.length), kept_weights.resize(memory.length);
    int32_t *seen = seen_keys.data();
    float *weights = kept_weights.data();
    const int64_t dim = layer.head_dim, group = layer.heads / layer.kv_heads;
    const int64_t *k = memory.key_strides, *v = memory.value_strides;
    const auto head_attends = dim == 64 ? attend<64> : attend<0>;
    for (int64_t row = 0; row < part.sentences * part.width; row++) {
        const int64_t sentence = row / part.width;
        const int64_t length = own || !part.lens ? memory.length : std::min(memory.length, part.lens[sentence]);
        const float *bias = part.bias + sentence * part.bias_strides[0] + row % part.width * part.bias_strides[1];
        int64_t count = 0;
        for (int64_t key = 0; key < length; key++)
            if (!own || !part.bias || bias[key] == 0) seen[count++] = (int32_t)key;
        for (int64_t head = 0; head < layer.heads; head++, out += dim)
            head_attends(queries + row * stride + head * dim, memory.keys + sentence * k[0] + head / group * k[1], k[2], k[1],
                         memory.values + sentence * v[0] + head / group * v[1], v[2], seen, count, dim, weights, out);
    }
}

// writes the keys and values of this step behind those of the steps before
static void append(const Attention &layer, const Part &part, const float *packed, int64_t stride) {
    const Memory &memory = part.own;
    const int64_t dim = layer.head_dim;
    for (int64_t row = 0; row < part.sentences * part.width; row++)
        for (int64_t head = 0; head < layer.kv_heads; head++) {
            const int64_t sentence = row / part.width, place = memory.length - part.width + row % part.width;
            const int64_t *k = memory.key_strides, *v = memory.value_strides;
            const float *key = packed + row * stride + (layer.heads + head) * dim, *value = key + layer.kv_heads * dim;
            std::copy(key, key + dim, memory.keys + sentence * k[0] + head * k[1] + place * k[2]);
            std::copy(value, value + dim, memory.values + sentence * v[0] + head * v[1] + place * v[2]);
        }
}

static void heads_of(const Attention &layer, const Part &part, bool own, const float *packed, float *out) {
    const int64_t stride = layer.project.out;
    if (own) append(layer, part, packed, stride);
    attend_all(layer, part, own ? part.own : part.cross, own, packed, stride, out);
}

static void attention(const Attention &layer, const Part *parts, int64_t count, int64_t rows, bool own, float *x) {
    static thread_local std::vector<float> entering, packed, attended;
    const int64_t width = layer.project.in, stride = layer.project.out, wide = layer.heads * layer.head_dim;
    entering.resize(rows * width), packed.resize(rows * stride), attended.resize(rows * wide);
    normalize(layer.before, x, entering.data(), rows, width);
    product(layer.project, entering.data(), rows, packed.data());
    for (int64_t part = 0, row = 0; part < count; row += parts[part].sentences * parts[part].width, part++)
        heads_of(layer, parts[part], own, packed.data() + row * stride, attended.data() + row * wide);
    product(layer.output, attended.data(), rows, entering.data());
    for (int64_t i = 0; i < rows * width; i++) x[i] += entering[i];
    normalize(layer.after, x, x, rows, width);
}

extern "C" int bits() { return BITS; }
extern "C" int lanes() { return (int)LANES; }
extern "C" int depth() { return (int)DEPTH; }
extern "C" int has_tiles() { return may_use_tiles(); }
extern "C" void multiply(const Layer *layer, const float *x, int64_t rows, float *out) { product(*layer, x, rows, out); }

// what the rows of one search attend to, from their projection
extern "C" void attend(const Attention *layer, const Part *part, int64_t own, const float *packed, float *out) {
    heads_of(*layer, *part, own, packed, out);
}

// one cached step of several searches through a block, in place: x is (rows, width) of all of them
static void step(const Block *block, const Part *parts, int64_t count, float *x, int64_t rows) {
    attention(block->own, parts, count, rows, true, x);
    if (block->crosses) attention(block->cross, parts, count, rows, false, x);
    static thread_local std::vector<float> entering, inside;
    const int64_t width = block->inner.in;
    entering.resize(rows * width), inside.resize(rows * block->inner.out);
    normalize(block->before, x, entering.data(), rows, width);
    product(block->inner, entering.data(), rows, inside.data());
    activate(block->activation, inside.data(), (int64_t)inside.size());
    product(block->outer, inside.data(), rows, entering.data());
    for (int64_t i = 0; i < rows * width; i++) x[i] += entering[i];
    normalize(block->after, x, x, rows, width);
}

// the same through all blocks and the closing norm; of each search the parts of all layers
extern "C" void steps(const Block *const *blocks, int64_t layers, const Norm *closing, const Part *const *searches, int64_t count,
                      float *x, int64_t rows) {
    static thread_local std::vector<Part> parts;
    parts.resize(count);
    for (int64_t layer = 0; layer < layers; layer++) {
        for (int64_t i = 0; i < count; i++) parts[i] = searches[i][layer];
        step(blocks[layer], parts.data(), count, x, rows);
    }
    const int64_t width = blocks[0]->inner.in;
    normalize(*closing, x, x, rows, width);
}

// what `continuations` ranks: rows of logits, tokens that are forbidden, and whether a row may end
struct Ranked {
    int64_t sentences, beams, vocab, best;
    const float *logits;
    const double *totals;
    int64_t forbidden_count;
    const int64_t *forbidden;
    int64_t end;
    const uint8_t *early;
};
struct Candidate {
    float value;
    int64_t token;
};

// the best tokens of a row by log-probability; false where one is NaN or infinity, or none is finite
static bool rank(const float *x, const Ranked &of, bool early, std::vector<Candidate> &best) {
    const float lowest = -std::numeric_limits<float>::infinity();
    float lows[WIDE], highs[WIDE], total = 0;
    std::fill(lows, lows + WIDE, 0.0f), std::fill(highs, highs + WIDE, lowest);
    extremes(x, of.vocab, lows, highs);
    const float largest = *std::max_element(highs, highs + WIDE);
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < of.vocab; i++) total += exponential(x[i] - largest);
    if (!std::isfinite(total) || std::isinf(largest)) return false;
    const float normal = std::log(total);
    // so many numbers reach this one that enough of them are allowed
    const int64_t enough = of.best + of.forbidden_count + early;
    if (enough <= WIDE) std::nth_element(highs, highs + enough - 1, highs + WIDE, std::greater<float>());
    float bound = enough <= WIDE ? highs[enough - 1] - largest - normal : lowest;
    const auto is_allowed = [&](int64_t token) {
        if (early && token == of.end) return false;
        return std::find(of.forbidden, of.forbidden + of.forbidden_count, token) == of.forbidden + of.forbidden_count;
    };
    best.clear();
    for (int64_t start = 0; start < of.vocab; start += WIDE) {
        const int64_t stop = std::min(of.vocab, start + WIDE);
        int better = 0;
#pragma omp simd reduction(| : better)
        for (int64_t i = start; i < stop; i++) better |= x[i] - largest - normal >= bound;
        for (int64_t i = start; better && i < stop; i++) {
            const float value = x[i] - largest - normal;
            const bool full = (int64_t)best.size() == of.best;
            if (value < bound || (full && value == bound) || std::isinf(value) || !is_allowed(i)) continue;
            if (full) best.pop_back();
            // behind its equals, which have lower tokens
            const auto place = std::upper_bound(best.begin(), best.end(), value,
                                                [](float own, const Candidate &other) { return own > other.value; });
            best.insert(place, {value, i});
            if ((int64_t)best.size() == of.best) bound = best.back().value;
        }
    }
    return true;
}

// the best continuations of each sentence, best first: equal ones by row, then by token. Missing ones: minus infinity, -1.
// Returns whether all logits are finite or minus infinity.
extern "C" int continuations(const Ranked *of, double *totals, int64_t *rows, int64_t *tokens) {
    static thread_local std::vector<Candidate> best;
    for (int64_t sentence = 0; sentence < of->sentences; sentence++) {
        double *total = totals + sentence * of->best;
        int64_t *row = rows + sentence * of->best, *token = tokens + sentence * of->best, count = 0;
        for (int64_t beam = 0; beam < of->beams; beam++) {
            const int64_t own = sentence * of->beams + beam;
            if (!rank(of->logits + own * of->vocab, *of, of->early && of->early[sentence], best)) return 0;
            if (std::isinf(of->totals[own])) continue;
            for (const Candidate &candidate : best) {
                const double sum = of->totals[own] + (double)candidate.value;
                if (count == of->best && !(sum > total[count - 1])) break;
                int64_t place = count < of->best ? count++ : count - 1;
                for (; place > 0 && sum > total[place - 1]; place--)
                    total[place] = total[place - 1], row[place] = row[place - 1], token[place] = token[place - 1];
                total[place] = sum, row[place] = own, token[place] = candidate.token;
            }
        }
        for (; count < of->best; count++)
            total[count] = -std::numeric_limits<double>::infinity(), row[count] = sentence * of->beams, token[count] = -1;
    }
    return 1;
}
